"""Random rows of the common types as each of three databases writes them, and what may go wrong with a row."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.audit.dialects import DUCKDB, MARIADB, POSTGRES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.audit.dialects import AuditDialect, Kind

DIALECTS: Final[Mapping[str, AuditDialect]] = {"mariadb": MARIADB, "postgres": POSTGRES, "duckdb": DUCKDB}
WORDS: Final = ("", " ", "a", "A", "NULL", "~", "1:x", "it's", "\\", "é", "e\u0301", "\U0001f600", "two words", "x|y")
KEYS: Final[Mapping[str, tuple[str, str, str]]] = {
    "integer": ("INT", "INTEGER", "INTEGER"),
    "wide": ("BIGINT UNSIGNED", "NUMERIC(20, 0)", "UBIGINT"),
    "hash": ("VARCHAR(30) COLLATE utf8mb4_bin", "TEXT", "VARCHAR"),
}
"""How a key of each cut is declared."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A column: how each database declares it, and a random value of it, as text."""

    name: str
    kind: Kind
    types: tuple[str, str, str]
    value: Callable[[random.Random], str]


def _moment(rng: random.Random) -> str:
    day = f"{rng.randint(1971, 2037)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}.{rng.randint(0, 999_999):06}"


HALF_WAY: Final = ("-5.271827914199144e+17", "4.056579431202816e+31", "-8.03158884352e+31")
"""Half-way between two doubles: the even one reads back from these digits, which PostgreSQL does not print.

It prints the second and the third with a 5 behind them, so that rounding leads away.
"""


def _float(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(HALF_WAY)
    exponent = rng.choice((0, 0, 0, -7, -20, 15, 16, 17, 21, 300, -300))
    return repr(rng.choice((rng.uniform(-1000, 1000), 0.0, 100000.0, 0.0001, 1 / 3)) * 10.0**exponent)


def _word(rng: random.Random) -> str:
    return rng.choice(WORDS) + rng.choice(("", "", "b", "tail", " "))


TYPED: Final = (
    Typed("small", "integer", ("SMALLINT", "SMALLINT", "SMALLINT"), lambda r: str(r.randint(-32768, 32767))),
    Typed("filled", "integer", ("INT(8) ZEROFILL", "BIGINT", "UINTEGER"), lambda r: str(r.randint(0, 99))),
    Typed("bits", "integer", ("BIT(12)", "INTEGER", "USMALLINT"), lambda r: str(r.randint(0, 4095))),
    Typed(
        "amount",
        "decimal",
        ("DECIMAL(20,4)", "NUMERIC(20,4)", "DECIMAL(20,4)"),
        lambda r: f"{r.choice((0, r.randint(-(10**12), 10**12)))}.{r.randint(0, 9999):04}",
    ),
    Typed("ratio", "float", ("DOUBLE", "DOUBLE PRECISION", "DOUBLE"), _float),
    Typed("single", "float", ("FLOAT", "REAL", "FLOAT"), lambda r: repr(r.uniform(-1e6, 1e6))),
    Typed("word", "text", ("VARCHAR(80)", "TEXT", "VARCHAR"), _word),
    Typed("other", "text", ("VARCHAR(80) CHARACTER SET utf8mb3", "TEXT", "VARCHAR"), lambda r: r.choice(WORDS[:11])),
    Typed("state", "text", ("ENUM('new','OLD')", "TEXT", "VARCHAR"), lambda r: r.choice(("new", "OLD"))),
    Typed("flags", "text", ("SET('a','b')", "TEXT", "VARCHAR"), lambda r: r.choice(("", "a", "a,b"))),
    Typed("code", "text", ("UUID", "UUID", "UUID"), lambda r: str(uuid.UUID(int=r.getrandbits(128), version=4))),
    Typed("raw", "bytes", ("VARBINARY(20)", "BYTEA", "BLOB"), lambda r: r.randbytes(r.randint(0, 8)).hex()),
    Typed("born", "date", ("DATE", "DATE", "DATE"), lambda r: r.choice(("0001-01-01", "9999-12-31", _moment(r)[:10]))),
    Typed("seen", "datetime", ("DATETIME(6)", "TIMESTAMP", "TIMESTAMP"), _moment),
    Typed("noted", "datetime", ("DATETIME", "TIMESTAMP", "TIMESTAMP"), lambda r: _moment(r)[:19]),
    Typed("instant", "timestamp", ("TIMESTAMP(6) NULL", "TIMESTAMPTZ", "TIMESTAMPTZ"), _moment),
    Typed(
        "span",
        "time",
        ("TIME(6)", "INTERVAL", "INTERVAL"),
        lambda r: f"{r.choice(('-', ''))}{r.randint(0, 838):02}:{r.randint(0, 59):02}:01.{r.randint(0, 999_999):06}",
    ),
)


def columns(cut: str) -> dict[str, str]:
    """The definitions of a table's columns by database; its key is called `id`."""
    places = {"mariadb": 0, "postgres": 1, "duckdb": 2}
    return {
        database: ", ".join([f"id {KEYS[cut][at]} NOT NULL", *(f"{each.name} {each.types[at]}" for each in TYPED)])
        for database, at in places.items()
    }


def random_rows(rng: random.Random, cut: str, count: int) -> list[tuple[str | None, ...]]:
    """Rows with keys that differ; a tenth of the values is NULL."""
    keys: set[str] = set()
    while len(keys) < count:
        number = rng.randint(-(10**6), 10**6) if cut == "integer" else rng.randint(2**63 - 500, 2**63 + 500)
        keys.add(f"{rng.choice(WORDS[2:])}{rng.randint(0, 999)}" if cut == "hash" else str(number))
    return [(key, *(None if rng.random() < 0.1 else each.value(rng) for each in TYPED)) for key in sorted(keys)]


def render(database: str, row: Sequence[str | None], cut: str) -> str:
    """Write a row as what stands in VALUES."""
    dialect = DIALECTS[database]
    kinds = ["text" if cut == "hash" else "integer", *(each.kind for each in TYPED)]
    names = ["id", *(each.name for each in TYPED)]
    return f"({', '.join(_literal(dialect, *cell) for cell in zip(names, kinds, row, strict=True))})"


def _literal(dialect: AuditDialect, name: str, kind: str, text: str | None) -> str:
    if text is None:
        return "NULL"
    if kind == "text" and name != "code":
        return dialect.text_literal.format(text.encode().hex())
    if kind == "bytes":
        return dialect.bytes_literal.format(text)
    if kind in {"integer", "decimal"}:
        return text
    return f"'{text}+00'" if kind == "timestamp" and not dialect.has_concat else f"'{text}'"


CORRUPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "small": ("small IS NOT NULL AND small < 32767", "small = small + 1"),
    "amount": ("amount IS NOT NULL", "amount = amount + 0.0001"),
    "ratio": ("ratio IS NOT NULL AND ABS(ratio) < 1000 AND ABS(ratio) > 0.01", "ratio = ratio + 1e-6"),
    "single": ("single IS NOT NULL", "single = NULL"),
    "word": ("word IS NOT NULL", "word = word || ' '"),
    "other": ("other IS NULL", "other = ''"),
    "state": ("state = 'new'", "state = 'NEW'"),
    "flags": ("flags = ''", "flags = NULL"),
    "seen": ("seen IS NOT NULL", "seen = seen + INTERVAL '1 microsecond'"),
    "noted": ("noted IS NOT NULL", "noted = noted + INTERVAL '1 second'"),
    "instant": ("instant IS NOT NULL", "instant = instant - INTERVAL '1 microsecond'"),
    "span": ("span IS NOT NULL", "span = span + INTERVAL '1 microsecond'"),
    "born": ("born < '9000-01-01'", "born = born + 1"),
    "bits": ("bits IS NOT NULL", "bits = bits + 1 - 2 * (bits % 2)"),
    "raw": ("raw IS NULL", "raw = ''"),
}
"""By column: rows of the target that can be made wrong so, and how."""
