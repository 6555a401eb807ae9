"""Rows brought into Snowflake as files: PUT into a stage of the session, and COPY INTO from there."""

from __future__ import annotations

import gzip
import uuid
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from penstock.core.errors import SinkError
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.messages import split_texts
from penstock.core.warehouse.staged_texts import (
    plan_copy,
    plan_put,
    plan_stage,
    plan_staging_table,
    plan_unstaging,
    stage_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ports.warehouse import StateDatabase

_FILE_BYTES: Final = 64 << 20
"""How much JSON a file has, which is compressed: from 100 to 250 MB compressed is what Snowflake advises at most."""


class Copies:
    """Fills a table of VARIANT with rows, which are gone again before the transaction ends.

    Files have names that were never there, so that COPY's own history of files skips
    none of them: what is loaded twice is told by positions. The stage goes with the session.
    """

    def __init__(self, database: StateDatabase, schema: str, name: str) -> None:
        """Make the table `name` and the stage. Outside of a transaction."""
        self._database = database
        self._table = quote_name(SNOWFLAKE, schema, name)
        self._stage = quote_name(SNOWFLAKE, schema, stage_name(name))
        for statement in (*plan_staging_table(schema, name), plan_stage(self._stage)):
            database.run(statement)

    @contextmanager
    def copied(self, texts: Iterator[str]) -> Iterator[str]:
        """Let statements of the open transaction read `texts` in the column `row` of the (quoted) table returned."""
        rows = 0
        with TemporaryDirectory(prefix="penstock-put-") as folder:
            for lines in split_texts(texts, _FILE_BYTES, as_array=False):
                rows += lines.count("\n") + 1
                self._copy(Path(folder) / f"{uuid.uuid4().hex}.json.gz", lines)
        ((there,),) = self._database.fetch(f"SELECT COUNT(*) FROM {self._table}")  # noqa: S608 - the name is quoted
        if int(there) != rows:
            message = f"COPY INTO brought {there} rows, and {rows} were sent"
            raise SinkError(message, "see that nobody else writes to the schema penstock, and run again")
        yield self._table
        # After a failure the transaction is rolled back, and the rows with it.
        self._database.run(plan_unstaging(self._table))

    def _copy(self, file: Path, lines: str) -> None:
        with gzip.open(file, "wt", encoding="utf-8", compresslevel=1) as out:
            out.write(lines)
        self._database.run(plan_put(file.as_posix(), self._stage))
        self._database.run(plan_copy(self._table, self._stage, file.name))
        file.unlink()
