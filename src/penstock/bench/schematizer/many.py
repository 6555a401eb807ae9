"""Figures: a registry full of schemas beside a small one, both asked for as many different things."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from penstock.bench.figure import Figure
from penstock.bench.schematizer.filling import VERSIONS, fill, schema_of, subject_of
from penstock.bench.schematizer.load import measure_in_turn
from penstock.bench.schematizer.sides import ours
from penstock.bench.schematizer.workload import lookup, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.schematizer.workload import Request

# One row in ten of bulk.
_ROWS_PER_SCHEMA: Final = 10
_SHARE_OF_SMALL: Final = 0.9
_SUBJECTS_ASKED: Final = 100
_PEER: Final = f"the same with {_SUBJECTS_ASKED * VERSIONS:,} schemas"


def measure(lab: Lab) -> Sequence[Figure]:
    """Three kinds of requests: answered from memory, from the database, and registrations of what is known."""
    subjects = max(_SUBJECTS_ASKED, lab.settings.rows // _ROWS_PER_SCHEMA // VERSIONS)
    home = lab.folder("many")
    lab.say(f"many: registering {subjects * VERSIONS:,} schemas under {subjects:,} subjects")
    first_id = fill(home / "full", subjects)
    fill(home / "small", _SUBJECTS_ASKED)
    chosen = random.Random(1).sample(range(subjects), _SUBJECTS_ASKED)  # noqa: S311 - the same in every run
    asked, asked_of_small = _requests(first_id, chosen), _requests(first_id, range(_SUBJECTS_ASKED))
    figures = []
    with ours(home / "full", f"{subjects * VERSIONS:,} schemas") as full, ours(home / "small", _PEER) as small:
        for number, name in enumerate(asked):
            # Each is asked once before: what is measured is how things go on.
            full.ask_each(asked[name])
            small.ask_each(asked_of_small[name])
            loads = measure_in_turn(lab, f"many-{number}", {full: asked[name], small: asked_of_small[name]})
            figures.append(
                Figure(
                    f"{name}, of {subjects * VERSIONS:,} schemas",
                    "server CPU ms per request",
                    "less",
                    loads[full].cpu_ms,
                    _PEER,
                    loads[small].cpu_ms,
                    _SHARE_OF_SMALL,
                    note=f"rounds: full {loads[full].spread()}; small {loads[small].spread()}",
                )
            )
    return figures


def _requests(first_id: int, subjects: Sequence[int]) -> dict[str, list[Request]]:
    """Return what is asked for by what it is called: every version, the newest, the first of each subject."""
    ids = [first_id + subject * VERSIONS + version for subject in subjects for version in range(VERSIONS)]
    return {
        "GET of a schema by id": [lookup(each) for each in ids],
        "GET of a subject's newest version": [newest(subject_of(each)) for each in subjects],
        "registration of a known schema": [schema_of(each).request for each in subjects],
    }
