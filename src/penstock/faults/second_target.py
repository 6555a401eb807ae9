"""The PostgreSQL that a pipeline with two targets loads beside the DuckDB, and what it lacks of a source."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg

from penstock.core.errors import UnavailableError
from penstock.dev import postgres
from penstock.embedded.ports import LOOPBACK
from penstock.faults.sources import CONNECT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.demo.sources.database import SourceConnection
    from penstock.embedded.server import Server

_KEYED: Final = ("SELECT id, version, note FROM {}accounts", "SELECT id, version FROM {}last_versions")
_ENTRIES: Final = "SELECT number, note FROM {}entries"
_CHANGES: Final = "SELECT _op, number, note FROM {}entries"
_ADDS: Final = ("c", "r", "u+")

_Row: TypeAlias = tuple[object, ...]


class PostgresTarget:
    """A PostgreSQL server into which every source goes; `password` is looked for in `password_env`."""

    name: str = "second"
    password: str = postgres.PASSWORD
    password_env: str = "FAULTS_TARGET_PASSWORD"  # noqa: S105 - the variable's name

    def start(self, folder: Path) -> Server:
        """Start it, or start it again, with its data in `folder`."""
        return postgres.start_postgres(folder)

    def spec(self, port: int) -> Mapping[str, Any]:
        """What a pipeline's file says of it."""
        login = {"database": postgres.DATABASE, "user": postgres.USER, "password_env": self.password_env}
        return {"name": self.name, "kind": "postgres", "host": LOOPBACK, "port": port, **login}

    def count_differing(self, source: SourceConnection, port: int, schema: str) -> int:
        """How many rows are not those of the workload in `source`, which is closed. Raises UnavailableError."""
        try:
            with closing(source), source.cursor() as cursor, self._connect(port) as target:
                differing = 0
                for query in _KEYED:
                    cursor.execute(query.format(""))
                    loaded = target.execute(query.format(f"{schema}.").encode()).fetchall()
                    differing += _differing(Counter(map(tuple, cursor.fetchall())), Counter(map(tuple, loaded)))
                cursor.execute(_ENTRIES.format(""))
                folded: Counter[_Row] = Counter()
                for op, *row in target.execute(_CHANGES.format(f"{schema}.").encode()).fetchall():
                    folded[tuple(row)] += 1 if op in _ADDS else -1
                return differing + _differing(Counter(map(tuple, cursor.fetchall())), folded)
        except psycopg.Error as error:
            message = f"the second target does not answer: {error}"
            raise UnavailableError(message, "try again") from error

    def _connect(self, port: int) -> psycopg.Connection:
        return psycopg.connect(
            host=LOOPBACK,
            port=port,
            user=postgres.USER,
            password=self.password,
            dbname=postgres.DATABASE,
            connect_timeout=CONNECT_SECONDS,
        )


def _differing(expected: Counter[_Row], found: Counter[_Row]) -> int:
    return sum(abs(expected[row] - found[row]) for row in {*expected, *found})
