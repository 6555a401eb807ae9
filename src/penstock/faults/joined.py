"""A join of two of the workload's tables, one more link of the pipeline that is broken, and what came of it.

Each update of an account moves its row to another join key, and each row of
`last_versions` is the match of many accounts or of none. When it is made again, a
condition comes into its file, or goes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml

from penstock.adapters.duckdb.query import query
from penstock.core.errors import PenstockError
from penstock.faults.workload import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.demo.sources.database import SourceConnection

NAME: Final = "accounts_joined"
PIPELINE: Final = "faults"
"""What the pipeline is called that is broken."""
OUTPUT_TOPIC: Final = f"{NAME}.joined.{NAME}"
RECORDS_TOPIC: Final = f"penstock.{PIPELINE}.position.{NAME}"
_FILE: Final = f"{NAME}.yaml"
_FIELDS: Final = ("id", "version", "note", "last_version")
_CONDITION: Final = "version >= 3"
_OF_SOURCE: Final = (
    "SELECT a.id, a.version, a.note, l.version FROM accounts a LEFT JOIN last_versions l ON l.id = a.version"
)
_UNDER_CONDITION: Final = f"{_OF_SOURCE} AND l.{_CONDITION}"
_OF_WAREHOUSE: Final = f"SELECT {', '.join(_FIELDS)} FROM joined.{NAME}"  # noqa: S608 - names of ours
_MICRO_BATCH_SECONDS: Final = 240.0
_STOP_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.005

_Row: TypeAlias = tuple[object, ...]


def write_join(folder: Path, *, has_condition: bool = False) -> str:
    """Write the join's file; return its name."""
    last_versions: dict[str, object] = {
        "topic": f"db.{SCHEMA}.last_versions",
        "type": "left",
        "join_keys": ["id"],
        "aliases": [{"from": "version", "to": "last_version"}, {"from": "id", "to": "version"}],
    }
    join = {
        "join": [
            {"topic": f"db.{SCHEMA}.accounts", "join_keys": ["version"]},
            last_versions | ({"where": _CONDITION} if has_condition else {}),
        ],
        "output": {"namespace": "joined", "source": NAME, "doc": "Accounts and last versions", "pkey": ["id"]},
    }
    (folder / _FILE).write_text(yaml.safe_dump(join), encoding="utf-8")
    return _FILE


class JoinedOutput:
    """The join's topic, folded by key: each change must fit the one before it.

    What a state publishes stands on the rows of as many states before it as its
    position records say; else targets were told to empty the table.
    """

    def __init__(self) -> None:
        """Begin with an empty topic, and a join without a condition."""
        self.has_condition = False
        self._rows: dict[object, tuple[int, _Row | None]] = {}
        self._follows: dict[int, int] = {}
        self._waiting: list[Mapping[str, object]] = []

    def take(self, change: Mapping[str, object]) -> None:
        """Take one more change, to be folded when the record of its state is known."""
        self._waiting.append(change)

    def take_record(self, record: Mapping[str, object]) -> None:
        """Take a position record: those read behind changes tell of all their states."""
        self._follows[int(str(record["generation"]))] = int(str(record["follows"]))

    def fold(self) -> list[str]:
        """Fold the changes that were taken; return what is wrong with them."""
        wrong = [said for said in map(self._fold, self._waiting) if said]
        self._waiting.clear()
        return wrong

    def _fold(self, change: Mapping[str, object]) -> str:
        op, before, after = change["op"], _row(change["before"]), _row(change["after"])
        generation = _generation(change["source"])
        key = (before or after or ("",))[0]
        begun, known = self._rows.get(key, (generation, None))
        self._rows[key] = (generation, after)
        if generation < begun:
            return f"joined: {op} of {before or after} of {generation} came behind {begun}"
        if begun < self._oldest(generation):
            known = None
        # When another state takes over, it says how rows are now that are others.
        fits = known != after if op == "r" else known == before
        return "" if fits else f"joined: {op} of {before or after} came behind {known}"

    def _oldest(self, generation: int) -> int:
        """The oldest state whose rows are there."""
        return generation - self._follows.get(generation, 0)

    def rows(self) -> set[_Row]:
        """What is there now."""
        oldest = self._oldest(max((generation for generation, _ in self._rows.values()), default=0))
        return {row for generation, row in self._rows.values() if row is not None and generation >= oldest}

    def count_differing(self, source: SourceConnection, warehouse: Path, where: Path) -> int:
        """How many rows of the topic and of the warehouse are not those of the source's join. Raises PenstockError."""
        with closing(source), source.cursor() as cursor:
            cursor.execute(_UNDER_CONDITION if self.has_condition else _OF_SOURCE)
            expected = {tuple(row) for row in cursor.fetchall()}
        loaded = [tuple(row.values()) for row in query(warehouse, where, _OF_WAREHOUSE).rows.to_pylist()]
        doubled = len(loaded) - len(set(loaded))
        return len(expected ^ set(loaded)) + doubled + len(expected ^ self.rows())


def _row(given: object) -> _Row | None:
    return tuple(given[name] for name in _FIELDS) if isinstance(given, dict) else None


def _generation(source: object) -> int:
    return int(str(source["file"]).rpartition(".")[2]) if isinstance(source, dict) else 0


def await_micro_batch(home: Path) -> None:
    """Return while the join of an instance is in the middle of a micro-batch: Spark has planned it, and not committed.

    Raises PenstockError where none comes.
    """
    _await(
        home,
        "begins no micro-batch",
        lambda states: any(_newest(each / "offsets") > _newest(each / "commits") for each in states),
    )


def make_again(file: Path, output: JoinedOutput) -> None:
    """Change the join's file, and ask for it to be made again; the instance of `file` was killed before.

    Raises PenstockError where it holds its lock for too long.
    """
    output.has_condition = not output.has_condition
    write_join(file.parent, has_condition=output.has_condition)
    command = [sys.executable, "-m", "penstock.cli.main", "joinery", "rebuild", str(file), NAME]
    deadline = time.monotonic() + _STOP_SECONDS
    while (asked := subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=False)).returncode:  # noqa: S603 - the words are ours
        if time.monotonic() > deadline:
            message = f"the join is not made again in {_STOP_SECONDS:.0f} s: {asked.stderr.decode()}"
            raise PenstockError(message, f"type it: {' '.join(command)}")


def await_rebuild(home: Path) -> None:
    """Return when the join of an instance has begun another state beside its own. Raises PenstockError if it does not.

    It may be over by then: that is as it may be.
    """
    mark = home / "joins" / NAME / "rebuild.json"
    _await(
        home,
        "is not made again",
        lambda states: sum(_newest(each / "offsets") >= 0 for each in states) > 1 or not mark.is_file(),
    )


def _await(home: Path, what: str, holds: Callable[[Sequence[Path]], bool]) -> None:
    deadline = time.monotonic() + _MICRO_BATCH_SECONDS
    while time.monotonic() < deadline:
        if holds(list((home / "joins" / NAME).glob("[0-9]*"))):
            return
        time.sleep(_POLL_SECONDS)
    message = f"the join {what} in {_MICRO_BATCH_SECONDS:.0f} s"
    raise PenstockError(message, f"read the logs beside {home}")


def _newest(folder: Path) -> int:
    return max((int(file.name) for file in folder.glob("*") if file.name.isdigit()), default=-1)


def lose_states(home: Path) -> bool:
    """Remove the states of an instance's joins; False if it has none."""
    states = home / "joins"
    found = states.is_dir()
    shutil.rmtree(states, ignore_errors=True)
    return found
