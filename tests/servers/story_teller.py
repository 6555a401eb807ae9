"""A session of an application, which fills the gaps of statements from what there is, and ignores refusals."""

from __future__ import annotations

import random
import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pymysql
from tests.servers.ddl_words import TABLES
from tests.servers.source_log import connected

from penstock.adapters.mysql.catalog import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.source_log import Source

_GAP: Final = re.compile(r"<(t|c|values|set|noise|same|or replace) ?(\d*)>")
_CODECS: Final = {"latin1": "cp1252", "gbk": "gbk", "sjis": "shift_jis", "utf8mb4": "utf-8"}
_NOISE: Final = (
    " /* a, b; 'c */ ", " -- it's\n", ' # "x\n', "\n\t", " /*!50000 */ ", " /*!99999 x */ ", " /**/ ", " /*!*/ ",
    " /*M!100100 */ ", " /*M!999999 */ ", " /*+ z */ ",
)  # fmt: skip
_BLANK: Final = re.compile(r"""`[^`]*`|'[^']*'|"[^"]*"| """)
_VALUES: Final = {
    "number": (
        "0",
        "1",
        "-1",
        "7",
        "200",
        "65000",
        "3000000000",
        "1.25",
        "0.1",
        "NULL",
        "DEFAULT",
        "9223372036854775807",
    ),
    "time": ("'2020-02-03'", "'2021-12-31 23:59:59.5'", "'10:11:12.25'", "20200102030405", "NULL", "DEFAULT"),
    "text": ("'a'", "'b '", "'é'", "'日本'", "'🐬'", "''", "'a,b'", "'C:\\\\x'", "NULL", "DEFAULT", "'x y'", "'2020'"),
    "bytes": ("x'00ff'", "'ab'", "''", "NULL", "x'e697a5'"),
    "json": ("'{\"a\": [1, null]}'", "'3'", "NULL"),
}
_KINDS: Final = {
    "number": ("int", "decimal", "float", "double", "bit", "year"),
    "time": ("date", "time"),
    "bytes": ("binary", "blob", "vector"),
    "json": ("json",),
}
_XA_ENDS: Final = ("XA COMMIT 'x'", "XA COMMIT 'x' ONE PHASE", "XA ROLLBACK 'x'")
_COLUMNS_OF: Final = (
    "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(GENERATION_EXPRESSION, '') FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
)


@dataclass(slots=True)
class StoryTeller:
    """Two connections: the one that the story is about, and one that looks around. `told` is what was accepted."""

    schema: str
    session: pymysql.Connection
    around: pymysql.Connection
    told: list[str] = field(default_factory=list)
    _table: str = ""

    @classmethod
    def open(cls, source: Source, schema: str) -> StoryTeller:
        """Begin in an empty database."""
        around = connected(source)
        with around.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
            cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
        session = connected(source)
        session.select_db(schema)
        return cls(schema, session, around)

    def close(self) -> None:
        """End the session, and with it what it left open."""
        self.session.close()
        self.around.close()

    def tell(self, templates: Sequence[str]) -> None:
        """Run statements, and commit."""
        for template in templates:
            for part in template.split(";;"):
                self._run(self._filled(part))
        is_xa = "XA START 'x'" in self.told and self.told.count("XA START 'x'") > sum(map(self.told.count, _XA_ENDS))
        for ending in ("XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'") if is_xa else ("COMMIT",):
            self._run(ending)

    def _run(self, sql: str) -> None:
        try:
            with closing(self.session.cursor()) as cursor:
                cursor.execute(sql)
        except (pymysql.err.MySQLError, UnicodeEncodeError) as error:
            self.told.append(f"-- {sql} -- {error}")
            return
        self.told.append(sql)
        if sql.startswith("SET NAMES "):
            self.session.encoding = _CODECS[sql.removeprefix("SET NAMES ")]

    def _filled(self, template: str) -> str:
        noise = re.match(r"<noise (\d+)>", template)
        sql = _GAP.sub(self._fill, template)
        return _noisy(sql, int(noise[1])) if noise else sql

    def _fill(self, gap: re.Match[str]) -> str:
        fillings: dict[str, Callable[[int], str]] = {
            "t": self._some_table,
            "same": lambda _: quote(self._table),
            "c": self._some_column,
            "values": lambda seed: self._rows(random.Random(seed)),  # noqa: S311 - not for secrets
            "set": lambda seed: self._changes(random.Random(seed)),  # noqa: S311 - not for secrets
            "or replace": lambda _: "CREATE OR REPLACE TABLE" if self._is_mariadb() else "CREATE TABLE",
            "noise": lambda _: "",
        }
        return fillings[gap[1]](int(gap[2] or 0))

    def _some_table(self, number: int) -> str:
        """Choose one; its name has no quotes where it needs none."""
        tables = self._tables()
        self._table = tables[number % len(tables)] if tables else "a"
        return next((name for name in TABLES if name.strip("`") == self._table), quote(self._table))

    def _some_column(self, number: int) -> str:
        names = [name for name, *_ in self._columns()] or ["id"]
        return quote(names[number % len(names)])

    def _is_mariadb(self) -> bool:
        return "mariadb" in str(self.session.get_server_info()).lower()  # type: ignore[no-untyped-call]

    def _tables(self) -> list[str]:
        with self.around.cursor() as cursor:
            cursor.execute(
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s "
                "AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME",
                (self.schema,),
            )
            return sorted(name for (name,) in cursor.fetchall())

    def _columns(self) -> list[tuple[str, str, str]]:
        with self.around.cursor() as cursor:
            cursor.execute(_COLUMNS_OF, (self.schema, self._table))
            return list(cursor.fetchall())

    def _rows(self, rng: random.Random) -> str:
        columns = [(name, kind) for name, kind, generated in self._columns() if not generated]
        rows = [
            ", ".join(str(rng.randrange(9)) if name == "id" else _literal(kind, rng) for name, kind in columns)
            for _ in range(rng.randint(1, 4))
        ]
        names = ", ".join(quote(name) for name, _ in columns)
        return f"({names}) VALUES " + ", ".join(f"({row})" for row in rows)

    def _changes(self, rng: random.Random) -> str:
        columns = [(name, kind) for name, kind, generated in self._columns() if not generated]
        some = rng.sample(columns, min(len(columns), 2))
        return ", ".join(f"{quote(name)} = {_literal(kind, rng)}" for name, kind in some) or "id = id"


def _literal(data_type: str, rng: random.Random) -> str:
    kinds = (kind for kind, words in _KINDS.items() if any(word in data_type.lower() for word in words))
    return rng.choice(_VALUES[next(kinds, "text")])


def _noisy(sql: str, seed: int) -> str:
    """Put comments between some of the words."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    return _BLANK.sub(lambda found: rng.choice((*_NOISE, " ", " ", " ")) if found[0] == " " else found[0], sql)
