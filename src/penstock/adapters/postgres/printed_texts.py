"""Results of PostgreSQL as columns of texts: COPY prints them as CSV, which Arrow reads."""

from __future__ import annotations

import io
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.csv

from penstock.core.audit.text_tables import table_of_texts

if TYPE_CHECKING:
    import psycopg

_BLOCK_BYTES_MIN: Final = 1 << 20


def copy_texts(connection: psycopg.Connection, query: str) -> pa.Table:
    """Return the rows of a query, whose columns are all texts; of none there are no columns. Raises psycopg.Error."""
    statement = f"COPY ({query}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
    with closing(connection.cursor()) as cursor, cursor.copy(statement.encode()) as copy:
        columns = cursor.pgresult.nfields if cursor.pgresult else 0
        printed = b"".join(copy)
    if not printed:
        return pa.table({})
    names = [str(place) for place in range(columns)]
    found = pyarrow.csv.read_csv(
        io.BytesIO(printed),
        # In one block, for no row may be in two.
        pyarrow.csv.ReadOptions(
            column_names=names, use_threads=False, block_size=max(_BLOCK_BYTES_MIN, len(printed) + 1)
        ),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        # NULL is nothing, an empty text two quotes.
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table_of_texts(found.columns)
