"""`penstock bench schematizer`: its parts, and who takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.schematizer import many, requests, start
from penstock.bench.versions import python_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.bench.lab import Lab

_PACKAGES: Final = ("penstock", "fastapi", "starlette", "uvicorn", "httptools", "uvloop", "sqlalchemy", "pydantic")


def _versions(_: Lab) -> Mapping[str, str]:
    return python_versions(_PACKAGES)


SCHEMATIZER: Final = Bench(
    "schematizer",
    {
        "lookups": requests.measure_lookups,
        "registrations": requests.measure_registrations,
        "start": start.measure,
        "many": many.measure,
    },
    _versions,
)
