"""A session of an application of PostgreSQL, which fills the gaps of statements, and ignores refusals."""

from __future__ import annotations

import random
import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psycopg
from tests.servers.postgres_words import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = re.compile(r"<(c|values|many|set|large) (\d+)>")
_TABLE: Final = re.compile(r"(?:TABLE|INTO|UPDATE|FROM|TRUNCATE) \"?(\w)\b")
_VALUES: Final = {
    "int": ("0", "1", "-7", "32767", "NULL", "DEFAULT"),
    "text": ("'a'", "'b '", "'é'", "''", "'x''y'", "'\\\\N'", "NULL", "DEFAULT"),
    "moment": ("'2020-02-03'", "'1999-12-31 23:59:59.123456'", "NULL", "DEFAULT"),
    "json": ("'{\"a\": [1, null]}'", "'3'", "NULL"),
    "truth": ("true", "false", "NULL"),
    "array": ("'{1,NULL,3}'", "'{}'", "'{{1},{2}}'", "NULL"),
    "mood": ("'sad'", "'ok'", "NULL"),
}
_LARGE: Final = "(SELECT string_agg(md5(({0} + i)::text), '') FROM generate_series(1, 100) i)"
_TRIES: Final = 100
_COLUMNS: Final = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = to_regclass(%s)"
    " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_DECLARED: Final = {
    "integer": "int",
    "character varying(9)": "varchar(9)",
    "timestamp without time zone": "timestamp",
    "integer[]": "int[]",
    "character(4)": "char(4)",
}


@dataclass(slots=True)
class PostgresTeller:
    """Two connections: the one that the story is about, and one that looks around. `told` is what was accepted."""

    session: psycopg.Connection
    told: list[str] = field(default_factory=list)
    _next_id: int = 1000

    def close(self) -> None:
        """End the session, and with it what it left open."""
        self.session.close()

    def tell(self, templates: Sequence[str]) -> None:
        """Run statements, and commit."""
        for template in templates:
            self._run(template)
        self._run("COMMIT")

    def show(self) -> None:
        """Insert a row into each table, so that the log tells what it is like now; NULL is not for every column."""
        for (table,) in self.session.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall():
            if not any(self._run(f'INSERT INTO "{table}" <values {seed}>') for seed in range(_TRIES)):
                message = f"no row could be written into {table}: {self.told[-1]}"
                raise AssertionError(message)

    def _run(self, template: str) -> bool:
        """Return whether it was accepted."""
        table = found[1] if (found := _TABLE.search(template)) else "a"
        # A refusal must not end the transaction that it is in.
        is_inside = self.session.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        try:
            sql = _GAP.sub(lambda gap: self._fill(gap[1], int(gap[2]), table), template)
            if is_inside and not template.startswith(("COMMIT", "ROLLBACK", "SAVEPOINT")):
                self.session.execute("SAVEPOINT each")
            with closing(self.session.cursor()) as cursor:
                cursor.execute(sql.encode())
        except psycopg.Error as error:
            self.told.append(f"-- {template} -- {str(error).splitlines()[0]}")
            if self.session.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                self._after_refusal()
            return False
        self.told.append(sql)
        return True

    def _after_refusal(self) -> None:
        try:
            self.session.execute("ROLLBACK TO each")
        except psycopg.Error:
            self.session.execute("ROLLBACK")
            self.told.append("ROLLBACK")

    def _fill(self, gap: str, seed: int, table: str) -> str:
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        columns = [
            (name, _DECLARED.get(declared) or declared)
            for name, declared in self.session.execute(_COLUMNS, (f'public."{table}"',)).fetchall()
        ]
        others = [column for column in columns if column[0] != "id"] or [("id", "int")]
        match gap:
            case "c":
                return f'"{rng.choice(others)[0]}"'
            case "values":
                return self._rows(columns, rng, rng.randint(1, 3))
            case "many":
                return self._rows(columns, rng, 40)
            case "set":
                return ", ".join(f'"{name}" = {_literal(declared, rng)}' for name, declared in rng.sample(others, 1))
            case _:
                texts = [name for name, declared in others if declared == "text"]
                return f'"{rng.choice(texts)}" = {_LARGE.format(seed)}' if texts else "id = id"

    def _rows(self, columns: Sequence[tuple[str, str]], rng: random.Random, count: int) -> str:
        if not columns:
            return "DEFAULT VALUES"
        names = ", ".join(f'"{name}"' for name, _ in columns)
        rows = []
        for _ in range(count):
            self._next_id += 1
            rows.append(", ".join(str(self._next_id) if n == "id" else _literal(d, rng) for n, d in columns))
        return f"({names}) VALUES " + ", ".join(f"({row})" for row in rows)


def _literal(declared: str, rng: random.Random) -> str:
    return rng.choice(_VALUES[KINDS.get(declared, "text")])
