"""A join of two of the workload's tables, one more link of the pipeline that is broken, and what came of it.

Each update of an account moves its row to another join key, and each row of
`last_versions` is the match of many accounts or of none.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml

from penstock.adapters.duckdb.query import query
from penstock.core.errors import PenstockError
from penstock.faults.workload import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.demo.sources.database import SourceConnection

NAME: Final = "accounts_joined"
OUTPUT_TOPIC: Final = f"{NAME}.joined.{NAME}"
_FILE: Final = f"{NAME}.yaml"
_FIELDS: Final = ("id", "version", "note", "last_version")
_OF_SOURCE: Final = (
    "SELECT a.id, a.version, a.note, l.version FROM accounts a LEFT JOIN last_versions l ON l.id = a.version"
)
_OF_WAREHOUSE: Final = f"SELECT {', '.join(_FIELDS)} FROM joined.{NAME}"  # noqa: S608 - names of ours
_MICRO_BATCH_SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.005

_Row: TypeAlias = tuple[object, ...]


def write_join(folder: Path) -> str:
    """Write the join's file; return its name."""
    join = {
        "join": [
            {"topic": f"db.{SCHEMA}.accounts", "join_keys": ["version"]},
            {
                "topic": f"db.{SCHEMA}.last_versions",
                "type": "left",
                "join_keys": ["id"],
                "aliases": [{"from": "version", "to": "last_version"}, {"from": "id", "to": "version"}],
            },
        ],
        "output": {"namespace": "joined", "source": NAME, "doc": "Accounts and last versions", "pkey": ["id"]},
    }
    (folder / _FILE).write_text(yaml.safe_dump(join), encoding="utf-8")
    return _FILE


class JoinedOutput:
    """The join's topic, folded by key: each change must fit the one before it."""

    def __init__(self) -> None:
        """Begin with an empty topic."""
        self._rows: dict[object, tuple[str, _Row | None]] = {}

    def take(self, change: Mapping[str, object]) -> str:
        """Fold one more change; return what is wrong with it, or ""."""
        op, before, after = change["op"], _row(change["before"]), _row(change["after"])
        source = change["source"]
        generation = str(source["file"]) if isinstance(source, dict) else ""
        key = (before or after or ("",))[0]
        begun, known = self._rows.get(key, (generation, None))
        self._rows[key] = (generation, after)
        if generation < begun:
            return f"joined: {op} of {before or after} of {generation} came behind {begun}"
        if generation > begun:
            # The state was lost: targets are told to empty the table.
            known = None
        return "" if known == before else f"joined: {op} of {before} came behind {known}"

    def rows(self) -> set[_Row]:
        """What is there now."""
        newest = max((generation for generation, _ in self._rows.values()), default="")
        return {row for generation, row in self._rows.values() if row is not None and generation == newest}

    def count_differing(self, source: SourceConnection, warehouse: Path, where: Path) -> int:
        """How many rows of the topic and of the warehouse are not those of the source's join. Raises PenstockError."""
        with closing(source), source.cursor() as cursor:
            cursor.execute(_OF_SOURCE)
            expected = {tuple(row) for row in cursor.fetchall()}
        loaded = [tuple(row.values()) for row in query(warehouse, where, _OF_WAREHOUSE).rows.to_pylist()]
        doubled = len(loaded) - len(set(loaded))
        return len(expected ^ set(loaded)) + doubled + len(expected ^ self.rows())


def _row(given: object) -> _Row | None:
    return tuple(given[name] for name in _FIELDS) if isinstance(given, dict) else None


def await_micro_batch(home: Path) -> None:
    """Return while the join of an instance is in the middle of a micro-batch: Spark has planned it, and not committed.

    Raises PenstockError where none comes.
    """
    deadline = time.monotonic() + _MICRO_BATCH_SECONDS
    while time.monotonic() < deadline:
        states = home / "joins" / NAME
        if any(_newest(state / "offsets") > _newest(state / "commits") for state in states.glob("*")):
            return
        time.sleep(_POLL_SECONDS)
    message = f"the join begins no micro-batch in {_MICRO_BATCH_SECONDS:.0f} s"
    raise PenstockError(message, f"read the logs beside {home}")


def _newest(folder: Path) -> int:
    return max((int(file.name) for file in folder.glob("*") if file.name.isdigit()), default=-1)


def lose_states(home: Path) -> bool:
    """Remove the states of an instance's joins; False if it has none."""
    states = home / "joins"
    found = states.is_dir()
    shutil.rmtree(states, ignore_errors=True)
    return found
