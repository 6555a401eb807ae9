"""Rows staged as JSON in one table of VARIANT, for a warehouse that makes no tables in a transaction.

Values are texts, as in messages of a landing zone, and are cast where statements read them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.core.warehouse.columns import column_type
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing import json_value, typed_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import Column, TableSchema

_ROW: Final = '"row"'


def plan_staging_table(schema: str, name: str) -> list[str]:
    """Return what makes the table; each statement may be run again. Nothing in it is worth keeping for time travel."""
    path = quote_name(SNOWFLAKE, schema, name)
    return [
        f"CREATE SCHEMA IF NOT EXISTS {quote_name(SNOWFLAKE, schema)}",
        f"CREATE TRANSIENT TABLE IF NOT EXISTS {path} ({_ROW} VARIANT)",
    ]


def plan_staging(path: str) -> str:
    """Return the INSERT of rows: its one parameter is a JSON array of objects."""
    return f"INSERT INTO {path} ({_ROW}) SELECT f.value FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) AS f"  # noqa: S608 - the name is quoted


def stage_name(name: str) -> str:
    """Return the name of the stage beside the table `name`: PUT takes no other characters, in the stand-in at least."""
    return re.sub(r"\W", "_", name)


def plan_stage(stage: str) -> str:
    """Return what makes a stage, which goes with the session."""
    return f"CREATE TEMPORARY STAGE IF NOT EXISTS {stage}"


def plan_put(file: str, stage: str) -> str:
    """Return what sends a compressed file."""
    return f"PUT {quote_text(f'file://{file}', SNOWFLAKE)} @{stage} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = GZIP"


def plan_copy(path: str, stage: str, file: str) -> str:
    """Return what adds the rows of a file of the stage to the table at `path`; any mistake in it ends the statement."""
    return f"COPY INTO {path} FROM @{stage}/{file} FILE_FORMAT = (TYPE = JSON) PURGE = TRUE ON_ERROR = ABORT_STATEMENT"


def plan_unstaging(path: str) -> str:
    """Return what takes all rows out again."""
    return f"DELETE FROM {path}"  # noqa: S608 - the name is quoted


def render_staged(path: str, schema: TableSchema, columns: Sequence[Column]) -> str:
    """Return the staged rows as statements read them, with these columns: a query in brackets."""
    values = []
    for column in columns:
        type_ = column_type(SNOWFLAKE, schema, column)
        value = typed_value(json_value(_ROW, column.name), column.type, type_)
        values.append(f"{value} AS {quote_name(SNOWFLAKE, column.name)}")
    return f"(SELECT {', '.join(values)} FROM {path})"  # noqa: S608 - names are quoted
