"""Random types of PostgreSQL with values as SQL has them, and random statements; gaps are filled by a story teller."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

Literals = st.SearchStrategy[str]

TYPES_MADE: Final = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'très bien', 'it''s, \"so\"')",
    "CREATE DOMAIN amount AS numeric(8,3)",
    "CREATE DOMAIN narrow AS amount CHECK (value < 1000)",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public",
    "CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA public",
)


def quoted(text: str) -> str:
    """A text as SQL has it, backslashes as they are."""
    return "'" + text.replace("'", "''") + "'"


def _integers(bits: int) -> Literals:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(lambda number: f"({number})")


def _decimals(digits: int, scale: int) -> Literals:
    limit = 10**digits - 1
    return st.integers(-limit, limit).map(lambda number: f"'{number}e{-scale}'")


def _floats(width: int) -> Literals:
    finite = st.floats(width=width, allow_nan=False, allow_infinity=False).map(repr)  # type: ignore[arg-type]
    return (finite | st.sampled_from(["NaN", "Infinity", "-Infinity", "-0"])).map(quoted)


def texts(longest: int) -> Literals:
    """Letters, and what printing and COPY treat in ways of their own."""
    return st.text(st.sampled_from("aZ é日🐬0'\"\\%_\n\t\r,{}()N"), max_size=longest).map(quoted)


def _bytes(longest: int) -> Literals:
    return st.binary(max_size=longest).map(lambda raw: f"'\\x{raw.hex()}'")


_DAYS: Final = st.dates(dt.date.min, dt.date.max).map(str)
_CLOCKS: Final = st.times().map(str)
_MOMENTS: Final = st.builds("{} {}".format, st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30)), _CLOCKS)
_ZONES: Final = st.sampled_from(["", "Z", "+05:30", "-11", " Europe/Berlin"])
_SPANS: Final = st.builds(
    "{} years {} mons {} days {} secs".format, *[st.integers(-50, 50)] * 3, st.floats(-1e6, 1e6).map("{:.6f}".format)
)
_OCTETS: Final = st.tuples(*[st.integers(0, 255).map(str)] * 4).map(".".join)
_MACS: Final = st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":"))
_POINTS: Final = st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)).map(lambda point: f"({point[0]},{point[1]})")
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('aé\\"日 \n'), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab "), inner, max_size=3),
    max_leaves=5,
)


def _documents() -> Literals:
    import json  # noqa: PLC0415

    return _JSON.map(json.dumps).map(quoted)


def _arrays(element: Literals, declared: str) -> Literals:
    """Arrays of one dimension or two, empty ones, and NULL in them."""
    one = st.lists(element | st.just("NULL"), max_size=4).map(lambda some: f"ARRAY[{','.join(some)}]::{declared}")
    row = st.tuples(element, element).map(lambda some: f"[{','.join(some)}]")
    two = st.lists(row, min_size=1, max_size=3).map(lambda rows: f"ARRAY[{','.join(rows)}]::{declared}")
    return one | two


def _bits(least: int, most: int) -> Literals:
    return st.text(st.sampled_from("01"), min_size=least, max_size=most).map(lambda bits: f"B'{bits}'")


def _ranges(element: st.SearchStrategy[int]) -> Literals:
    pair = st.tuples(element, element).map(sorted)
    return pair.flatmap(lambda ends: st.sampled_from([f"'[{ends[0]},{ends[1]}]'", f"'({ends[0]},)'", "'empty'"]))


_MOODS: Final = st.sampled_from(["sad", "ok", "très bien", 'it\'s, "so"']).map(quoted)

COMMON: Final[dict[str, Literals]] = {
    "boolean": st.sampled_from(["true", "false"]),
    "smallint": _integers(16),
    "integer": _integers(32),
    "bigint": _integers(64),
    "oid": st.integers(0, 2**32 - 1).map(lambda number: f"'{number}'"),
    "real": _floats(32),
    "double precision": _floats(64),
    "numeric(10,2)": _decimals(10, 2),
    "numeric(38,9)": _decimals(38, 9),
    "numeric(76,30)": _decimals(76, 30),
    "numeric(4,-2)": st.integers(-999_900, 999_900).map("({})".format),
    "numeric(2,4)": _decimals(2, 4),
    "numeric(90,2)": _decimals(80, 2),
    "numeric": _decimals(60, 25) | st.sampled_from(["'NaN'", "'1e200'", "'0.000'"]),
    "money": st.integers(-(10**12), 10**12).map(lambda cents: f"({cents} / 100.0)::numeric"),
    "text": texts(40),
    "varchar(30)": texts(30),
    "char(12)": texts(12),
    '"char"': st.sampled_from(["'x'", "''", "' '", "'\"'"]),
    "name": texts(15),
    "citext": texts(20),
    "bytea": _bytes(60),
    "uuid": st.uuids().map(lambda uuid: f"'{uuid}'"),
    "json": _documents(),
    "jsonb": _documents(),
    "date": _DAYS.map(quoted),
    "time": _CLOCKS.map(quoted) | st.just("'24:00'"),
    "time(2)": _CLOCKS.map(quoted),
    "timetz": st.builds("{}{}".format, _CLOCKS, st.sampled_from(["+00", "-03:30", "+14"])).map(quoted),
    "timestamp": _MOMENTS.map(quoted),
    "timestamp(3)": _MOMENTS.map(quoted),
    "timestamptz": st.builds("{}{}".format, _MOMENTS, _ZONES).map(quoted),
    "timestamptz(0)": _MOMENTS.map(quoted),
    "interval": _SPANS.map(quoted),
    "interval year to month": _SPANS.map(quoted),
    "inet": st.builds("{}/{}".format, _OCTETS, st.integers(0, 32)).map(quoted)
    | st.ip_addresses(v=6).map("'{}'".format),
    "cidr": st.sampled_from(["'10.0.0.0/8'", "'2001:db8::/32'", "'0.0.0.0/0'"]),
    "macaddr": _MACS.map(quoted),
    "macaddr8": _MACS.map(quoted),
    "bit(5)": _bits(5, 5),
    "bit varying(20)": _bits(0, 20),
    "mood": _MOODS,
    "amount": _decimals(8, 3),
    "narrow": _decimals(5, 3),
    "pair": st.builds("ROW({}, {})::pair".format, _integers(32), texts(8)),
    "int4range": _ranges(st.integers(-1000, 1000)),
    "int8multirange": st.builds("'{{[{}]}}'".format, st.sampled_from(["1,3),[5,7", "-2,9"])) | st.just("'{}'"),
    "point": _POINTS.map(quoted),
    "box": st.builds("{},{}".format, _POINTS, _POINTS).map(quoted),
    "path": st.lists(_POINTS, min_size=1, max_size=3).map(lambda some: quoted(f"[{','.join(some)}]")),
    "circle": st.builds("<{},{}>".format, _POINTS, st.integers(0, 9)).map(quoted),
    "tsvector": st.sampled_from(["'a fat cat'", "'a:1A b:2'", "''"]),
    "tsquery": st.sampled_from(["'fat & !rat'", "'a <-> b'"]),
    "xml": st.sampled_from(["'<a>é &amp; <b/></a>'", "'text'"]),
    "hstore": st.sampled_from(["'a=>1, \"b c\"=>NULL'", "''", '\'"é"=>"\\"x\\""\'']),
    "pg_lsn": st.integers(0, 2**40).map(lambda lsn: f"'{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}'"),
    "int2vector": st.lists(st.integers(0, 99).map(str), max_size=4).map(lambda some: quoted(" ".join(some))),
    "regclass": st.sampled_from(["'pg_class'", "'pg_type'"]),
    "integer[]": _arrays(_integers(32), "integer[]"),
    "text[]": _arrays(texts(10), "text[]"),
    "numeric[]": _arrays(_decimals(20, 5) | st.just("'NaN'"), "numeric[]"),
    "double precision[]": _arrays(_floats(64), "double precision[]"),
    "boolean[]": _arrays(st.sampled_from(["true", "false"]), "boolean[]"),
    "jsonb[]": _arrays(st.sampled_from(['\'{"a": [1, "x,}"]}\'', "'{}'"]), "jsonb[]"),
    "mood[]": _arrays(_MOODS, "mood[]"),
    "uuid[]": _arrays(st.uuids().map(lambda uuid: f"'{uuid}'"), "uuid[]"),
    "timestamptz[]": _arrays(_MOMENTS.map(quoted), "timestamptz[]"),
    "box[]": _arrays(st.builds("{},{}".format, _POINTS, _POINTS).map(quoted), "box[]"),
    "bytea[]": _arrays(_bytes(10), "bytea[]"),
    "pair[]": _arrays(st.builds("ROW({}, {})::pair".format, _integers(32), texts(8)), "pair[]"),
}

TABLES: Final = ("a", "b", "c")
NAMES: Final = ("n", "m", "k", "ü", "select")
_SMALL: Final = {
    "int": "int",
    "bigint": "int",
    "text": "text",
    "varchar(9)": "text",
    "numeric(9,2)": "int",
    "timestamp": "moment",
    "jsonb": "json",
    "boolean": "truth",
    "int[]": "array",
    "mood": "mood",
    "char(4)": "text",
}
KINDS: Final = _SMALL
"""What kind of values a declared type takes: see story_teller's literals."""

_DEFAULTS: Final = {
    "int": "7",
    "bigint": "-1",
    "text": "'d é'",
    "varchar(9)": "'it''s'",
    "numeric(9,2)": "1.5",
    "timestamp": "'2020-01-02 03:04:05.678'",
    "jsonb": "'{\"a\": 1}'",
    "boolean": "true",
    "int[]": "'{1,2}'",
    "mood": "'ok'",
    "char(4)": "'c'",
}
_TABLE: Final = st.sampled_from(TABLES)
_TYPE: Final = st.sampled_from(sorted(_SMALL))
_NAME: Final = st.sampled_from(NAMES)
_SEED: Final = st.integers(0, 9999)


def _added(table: str, name: str, declared: str, default: str) -> str:
    more = {
        "": "",
        "constant": f" DEFAULT {_DEFAULTS[declared]}",
        "computed": " NOT NULL DEFAULT " + _DEFAULTS[declared],
    }
    return f'ALTER TABLE {table} ADD COLUMN "{name}" {declared}{more[default]}'


def _created(table: str, columns: Sequence[tuple[str, str]], key: str) -> str:
    listed = ", ".join(f'"{name}" {declared}' for name, declared in dict(columns).items())
    return f"CREATE TABLE {table} (id int {key}{', ' if listed else ''}{listed})"


_KEYS: Final = st.sampled_from(["PRIMARY KEY"] * 5 + ["NOT NULL UNIQUE"])
_COLUMNS: Final = st.lists(st.tuples(_NAME, _TYPE), max_size=4)
_ROWS: Final = st.one_of(
    st.builds("INSERT INTO {} <values {}>".format, _TABLE, _SEED),
    st.builds("INSERT INTO {} <many {}>".format, _TABLE, _SEED),
    st.builds("UPDATE {} SET <set {}> WHERE id % 3 = {}".format, _TABLE, _SEED, st.integers(0, 2)),
    st.builds("UPDATE {} SET id = id + {} WHERE id % 4 = {}".format, _TABLE, st.integers(1, 900), st.integers(0, 3)),
    st.builds("UPDATE {} SET id = -id WHERE id % 5 = {}".format, _TABLE, st.integers(0, 4)),
    st.builds("DELETE FROM {} WHERE id % 4 = {}".format, _TABLE, st.integers(0, 3)),
    st.builds("UPDATE {} SET <large {}> WHERE id % 2 = {}".format, _TABLE, _SEED, st.integers(0, 1)),
)
_CONTROL: Final = st.sampled_from(["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s"])
_DEFINITIONS: Final = st.one_of(
    st.builds(_created, _TABLE, _COLUMNS, _KEYS),
    st.builds(_added, _TABLE, _NAME, _TYPE, st.sampled_from(["", "constant", "computed"])),
    st.builds("ALTER TABLE {} DROP COLUMN <c {}>".format, _TABLE, _SEED),
    st.builds('ALTER TABLE {} RENAME COLUMN <c {}> TO "{}"'.format, _TABLE, _SEED, _NAME),
    st.builds("ALTER TABLE {} ALTER COLUMN <c {}> TYPE {}".format, _TABLE, _SEED, _TYPE),
    st.builds("ALTER TABLE {} ALTER COLUMN <c {}> SET STORAGE EXTERNAL".format, _TABLE, _SEED),
    st.builds("ALTER TABLE {} RENAME TO {}".format, _TABLE, _TABLE),
    st.builds("DROP TABLE {}".format, _TABLE),
    st.builds("TRUNCATE {}".format, _TABLE),
    st.builds("TRUNCATE {}, {}".format, _TABLE, _TABLE),
    st.builds("ALTER TABLE {} REPLICA IDENTITY {}".format, _TABLE, st.sampled_from(["FULL", "DEFAULT", "NOTHING"])),
    st.builds("CREATE TABLE {} AS SELECT * FROM {}".format, _TABLE, _TABLE),
    st.builds("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}_pkey".format, _TABLE, _TABLE),
    st.builds("ALTER TABLE {} ADD PRIMARY KEY (id)".format, _TABLE),
    st.builds("VACUUM FULL {}".format, _TABLE),
)
STORIES: Final = st.lists(st.one_of(_ROWS, _ROWS, _ROWS, _DEFINITIONS, _CONTROL), min_size=3, max_size=30)
"""Statements whose gaps, `<values 7>` and the like, are filled from what the table is by then."""
