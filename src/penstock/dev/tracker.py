"""The embedded schema tracker: a server of the source's own kind, MariaDB or MySQL.

Neither kind reads all statements of the other (collations, functional indexes,
sequences), has all its types (JSON, VECTOR) or prints types as the other does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.dev.debian import prefix_directory, require_apt
from penstock.dev.mariadb import Flavour, find_program, start_mariadb
from penstock.dev.mysql import PACKAGE, fetch_mysql, start_mysql
from penstock.wiring.waiting import wait_for_flavour

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.core.mysql import describe
    from penstock.dev.server import Server

_FOLDERS: dict[describe.Flavour, str] = {"mariadb": "tracker", "mysql": "tracker-mysql"}
_OF_ONES_OWN = (
    "give the pipeline one, of the source's version or newer, that holds nothing else: "
    "`tracker: {host: ..., user: ..., password_env: ...}`"
)


def start_tracker(spec: PipelineSpec, say: Callable[[str], None]) -> Server:
    """Start the tracker under the pipeline's home. `say` tells what takes long.

    Which kind the source is, is asked before the first start only. Raises
    UnavailableError when it does not answer then, and UsageError where this
    machine has no such server.
    """
    kind = _remembered(spec) or wait_for_flavour(spec.mysql_sources[0], say)
    home = _home(spec, kind)
    if kind == "mariadb":
        return start_mariadb(home, Flavour.TRACKER)
    try:
        fetch_mysql(say)
    except UsageError as error:
        message = f"the schema tracker of a MySQL source is a MySQL too, and there is none: {error.message}"
        raise UsageError(message, _OF_ONES_OWN) from error
    return start_mysql(home, Flavour.TRACKER)


def examine_tracker(spec: PipelineSpec) -> str:
    """Say which tracker would be started, without starting it. Raises as `start_tracker` does."""
    if (_remembered(spec) or wait_for_flavour(spec.mysql_sources[0], _say_nothing, wait_seconds=0)) == "mariadb":
        return f"MariaDB, {find_program('mariadbd')}"
    if prefix_directory(PACKAGE).exists():
        return f"MySQL, {prefix_directory(PACKAGE)}"
    try:
        require_apt(PACKAGE)
    except UsageError as error:
        raise UsageError(error.message, f"{error.hint}; or {_OF_ONES_OWN}") from error
    return "MySQL, which the first start fetches from Debian unstable (60 MB)"


def _remembered(spec: PipelineSpec) -> describe.Flavour | None:
    """Which kind was started before, None before the first start."""
    return next((kind for kind in _FOLDERS if (_home(spec, kind) / "initialised").exists()), None)


def _home(spec: PipelineSpec, kind: describe.Flavour) -> Path:
    return spec.home / _FOLDERS[kind]


def _say_nothing(_: str) -> None:
    """For a question that is asked once."""
