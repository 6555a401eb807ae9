"""The dialects of PostgreSQL, Amazon Redshift and Snowflake, and every dialect by its name.

Sources: PostgreSQL 17 documentation, chapter 8; Amazon Redshift Database
Developer Guide, "Data types", "Names and identifiers" and "ALTER TABLE" (one
column each, and no other type than a longer VARCHAR); Snowflake SQL reference,
"Data types" and "ALTER TABLE ... ALTER COLUMN" (longer texts, more digits; the
scale of a number stays).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Final

from penstock.core.warehouse.dialect import DUCKDB, Dialect, Retype

_POSTGRES_SYSTEM_COLUMNS: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_FIRST_DATE: Final = dt.date(1, 1, 1)
"""Years before 1 are written in another way, which none of what prints our dates knows."""
_POSTGRES_INTEGERS: Final = {
    (8, False): "SMALLINT",
    (8, True): "SMALLINT",
    (16, False): "SMALLINT",
    (16, True): "INTEGER",
    (24, False): "INTEGER",
    (24, True): "INTEGER",
    (32, False): "INTEGER",
    (32, True): "BIGINT",
    (64, False): "BIGINT",
}
_REDSHIFT_VARCHAR: Final = "VARCHAR(65535)"

POSTGRES: Final = Dialect(
    name="postgres",
    integers=_POSTGRES_INTEGERS | {(64, True): "NUMERIC(20, 0)"},
    floats={32: "REAL", 64: "DOUBLE PRECISION"},
    decimal="NUMERIC({precision}, {scale})",
    decimal_precision_max=1000,
    text="TEXT",
    binary="BYTEA",
    date="DATE",
    time="INTERVAL",
    datetime="TIMESTAMP",
    timestamp="TIMESTAMP WITH TIME ZONE",
    year="SMALLINT",
    printed={
        "json": "JSON",
        "uuid": "UUID",
        "inet4": "TEXT",
        "inet6": "TEXT",
        "date": "TEXT",
        "datetime": "TEXT",
        "timestamp": "TEXT",
        "postgres": "TEXT",
    },
    vector="REAL[]",
    identifier_quote='"',
    blob="CAST('\\x{hex}' AS BYTEA)",
    instant_of_ms="(TIMESTAMPTZ 'epoch' + {ms} * INTERVAL '1 millisecond')",
    name_bytes_max=63,
    text_has_nul=False,
    first_date=_FIRST_DATE,
    reserved_columns=_POSTGRES_SYSTEM_COLUMNS,
    # A B-tree's entry may have 2704 bytes, what it keeps beside the key included.
    key_index_bytes_max=2600,
    moves_tables=True,
    distinct_on=True,
    # Each has some locks, of which a server has a few thousand for all of its sessions.
    tables_together=50,
    listed_keys_max=100,
    not_grouped=frozenset({"JSON"}),
)
"""PostgreSQL 12 and later. It cuts longer names, so those are refused; a text has no NUL.

A JSON document keeps its text, which JSONB would not.
"""

REDSHIFT: Final = Dialect(
    name="redshift",
    integers=_POSTGRES_INTEGERS | {(64, True): "DECIMAL(20, 0)"},
    floats={32: "REAL", 64: "DOUBLE PRECISION"},
    decimal="DECIMAL({precision}, {scale})",
    decimal_precision_max=38,
    decimal_scale_max=37,
    text="VARCHAR({length})",
    text_length_max=65_535,
    text_length_is_bytes=True,
    binary="VARBYTE({length})",
    binary_length_max=16_777_216,
    date="DATE",
    time="BIGINT",
    time_is_microseconds=True,
    datetime="TIMESTAMP",
    timestamp="TIMESTAMPTZ",
    year="SMALLINT",
    printed={
        "json": _REDSHIFT_VARCHAR,
        "uuid": "VARCHAR(36)",
        "inet4": "VARCHAR(15)",
        "inet6": "VARCHAR(45)",
        "date": "VARCHAR(10)",
        "datetime": "VARCHAR(26)",
        "timestamp": "VARCHAR(26)",
        "postgres": _REDSHIFT_VARCHAR,
    },
    vector="SUPER",
    identifier_quote='"',
    blob="FROM_HEX('{hex}')",
    instant_of_ms="(TIMESTAMPTZ 'epoch' + {ms} * INTERVAL '0.001 second')",
    escapes_backslash=True,
    pads_texts=True,
    name_bytes_max=127,
    text_has_nul=False,
    first_date=_FIRST_DATE,
    reserved_columns=_POSTGRES_SYSTEM_COLUMNS | {"oid", "deletexid", "insertxid"},
    retype="ALTER COLUMN {name} TYPE {type}",
    retypes=frozenset({Retype.LONGER_TEXT}),
    retypes_in_transaction=False,
    deletes_using=True,
    any_text=_REDSHIFT_VARCHAR,
    locks_tables=True,
    folds_names=True,
    ignores_case=True,
    prints_floats=False,
)
"""Amazon Redshift. Its ALTER COLUMN TYPE runs in no transaction, its copy of a table in one.

Blanks at the end of a VARCHAR do not count where it is compared, but they do in its length ("Character types").
"""

REDSHIFT_SUPER: Final = replace(REDSHIFT, printed={**REDSHIFT.printed, "json": "SUPER"}, json_bytes_max=4_000_000)
"""Amazon Redshift with JSON as SUPER. COPY takes rows of up to 4 MiB ("COPY")."""

SNOWFLAKE: Final = Dialect(
    name="snowflake",
    integers={(bits, unsigned): "NUMBER(38, 0)" for bits in (8, 16, 24, 32, 64) for unsigned in (False, True)},
    floats={32: "FLOAT", 64: "FLOAT"},
    decimal="NUMBER({precision}, {scale})",
    decimal_precision_max=38,
    decimal_scale_max=37,
    text="VARCHAR({length})",
    text_length_max=16_777_216,
    binary="BINARY({length})",
    binary_length_max=8_388_608,
    date="DATE",
    time="NUMBER(38, 0)",
    time_is_microseconds=True,
    datetime="TIMESTAMP_NTZ(6)",
    timestamp="TIMESTAMP_LTZ(6)",
    year="NUMBER(38, 0)",
    printed={
        "json": "VARCHAR(16777216)",
        "uuid": "VARCHAR(36)",
        "inet4": "VARCHAR(15)",
        "inet6": "VARCHAR(45)",
        "date": "VARCHAR(10)",
        "datetime": "VARCHAR(26)",
        "timestamp": "VARCHAR(26)",
        "postgres": "VARCHAR(16777216)",
    },
    vector="VECTOR(FLOAT, {dimensions})",
    vector_dimensions_max=4096,
    identifier_quote='"',
    blob="TO_BINARY('{hex}', 'HEX')",
    instant_of_ms="CAST(TO_TIMESTAMP_LTZ({ms}, 3) AS TIMESTAMP_LTZ(6))",
    utc=" +00:00",
    escapes_backslash=True,
    name_bytes_max=255,
    first_date=_FIRST_DATE,
    retypes=frozenset({Retype.LONGER_TEXT, Retype.LONGER_BINARY, Retype.MORE_DIGITS}),
    replaced="CREATE OR REPLACE TABLE {path} {columns} COPY GRANTS",
    replaced_by_copy=(
        "CREATE OR REPLACE TABLE {copy} {columns} AS {select}",
        "CREATE OR REPLACE TABLE {path} CLONE {copy} COPY GRANTS",
        "DROP TABLE {copy}",
    ),
    fills_by_default=False,
    scratch="QUERY",
    definitions_commit=True,
    renames_to_path=True,
)
"""Snowflake. A column that is added gets its value by an UPDATE: a DEFAULT there may be no expression.

Each of its DDL statements is a transaction; so is the one that replaces a table, which cannot be left half done.
A clone shares the rows of the table it is made of ("Cloning considerations").
"""

DIALECTS: Final = {dialect.name: dialect for dialect in (DUCKDB, POSTGRES, REDSHIFT, SNOWFLAKE)}
