"""COPY from S3: files, rows, errors, and what the system tables tell of them.

Source: Amazon Redshift Database Developer Guide, "COPY", "Troubleshooting data loads", "STL_LOAD_ERRORS",
"STL_LOAD_COMMITS", "PG_LAST_COPY_COUNT".
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from penstock.dev.redshift.copy_options import CopyOptions, read_source
from penstock.dev.redshift.copy_parquet import ParquetReader
from penstock.dev.redshift.copy_target import Target, read_target
from penstock.dev.redshift.copy_text import TextReader
from penstock.dev.redshift.errors import INTERNAL, refuse
from penstock.dev.redshift.feed import BadRowError, Feed, Reader
from penstock.dev.redshift.files import list_files
from penstock.dev.redshift.load_errors import (
    BAD_DATE,
    BAD_DIGIT,
    BAD_JSON,
    BAD_TIMESTAMP,
    INVALID_LINE,
    MISSING,
    OUT_OF_RANGE,
    BadRow,
)
from penstock.dev.redshift.names import quoted
from penstock.dev.redshift.plan import Plan
from penstock.dev.redshift.reading import Reading
from penstock.dev.redshift.tokens import literal
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.dev.redshift.plan import TargetPlace
    from penstock.dev.redshift.tokens import Statement

_LINE = re.compile(r"^COPY [^\n]*?, line (\d+)(?:, column ([^\n:]+))?", re.MULTILINE)
_DATE_CODES = {"date": BAD_DATE}


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY statement: a table, the columns that it lists, and where its files are."""

    table: str
    columns: tuple[str, ...]
    bucket: str
    key: str
    options: CopyOptions

    async def run(self, place: TargetPlace) -> str:
        """Load all of it or nothing. RedshiftError, after the errors are in stl_load_errors."""
        target = await read_target(place, self.table, self.columns, explicit_ids=self.options.explicit_ids)
        ((query, session),) = await place.rows("SELECT nextval('standin_queries'), pg_backend_pid()")
        s3 = self.options.authorization.place(place.cluster)
        files = await asyncio.to_thread(list_files, s3, self.bucket, self.key, manifest=self.options.manifest)
        feed = Feed(files, s3, self._reader(target), self.options.compression)
        errors = Errors(place, target, int(query or 0), int(session or 0), self.options.ignore_header)
        if self.options.errors_max or self.options.no_load:
            await self._rehearse(place, feed, target, errors)
        if not self.options.no_load:
            await self._load(place, feed, target, errors)
        await self._finish(place, feed, int(query or 0))
        skipped = len(feed.skip)
        if skipped:
            place.notices.append(
                f"Load into table '{target.shown}' completed, {skipped} record(s) could not be loaded."
                "  Check 'stl_load_errors' system table for details."
            )
        place.notices.append(f"Load into table '{target.shown}' completed, {feed.rows} record(s) loaded successfully.")
        return "COPY"

    def _reader(self, target: Target) -> Callable[[], Reader]:
        if self.options.form == "PARQUET":
            return partial(ParquetReader, target.columns, self.options.serialize_to_json)
        return partial(TextReader, self.options, target.columns)

    async def _load(self, place: TargetPlace, feed: Feed, target: Target, errors: Errors) -> None:
        """Load into the table itself; the first bad row ends it."""
        names = ", ".join(quoted(column.name) for column in target.columns)
        try:
            await place.backend.copy_in(f"COPY {target.name} ({names}) FROM STDIN", feed.chunks(), sync=place.sync)
        except BadRowError as error:
            raise await errors.failed([(error.file, error.bad)], feed) from error
        except RedshiftError as error:
            found = _bad_row(error.fields, feed, target) if error.fields else None
            if found is None:
                raise
            raise await errors.failed([found], feed) from error

    async def _rehearse(self, place: TargetPlace, feed: Feed, target: Target, errors: Errors) -> None:
        """Load into a table like it as often as rows are bad, up to MAXERROR; `feed` skips them then."""
        definitions = ", ".join(
            f"{quoted(column.name)} {column.type_text}" + (" NOT NULL" if column.not_null else "")
            for column in target.columns
        )
        bad: dict[tuple[int, int], tuple[int, BadRow]] = {}
        connection = await psycopg.AsyncConnection.connect(place.cluster.login(place.database), autocommit=True)
        async with connection:
            await connection.execute(f"CREATE TEMP TABLE rehearsal ({definitions})".encode())
            while True:
                again = Feed(feed.files, feed.place, feed.make_reader, feed.compression, frozenset(bad))
                found = await _try_load(connection, again, target)
                if found is None:
                    break
                if (found[0], found[1].row) in bad:
                    message = f"the stand-in cannot skip row {found[1].line} of {feed.files[found[0]].url}"
                    raise RedshiftError(INTERNAL, message)
                bad[found[0], found[1].row] = found
                if len(bad) >= max(1, self.options.errors_max):
                    raise await errors.failed(list(bad.values()), again)
        feed.skip = frozenset(bad)
        await errors.record(list(bad.values()), feed)

    async def _finish(self, place: TargetPlace, feed: Feed, query: int) -> None:
        """What pg_last_copy_count() and stl_load_commits tell."""
        values = ", ".join(
            f"({query}, 0, {literal(file.url[:256])}, {feed.rows_of_files.get(number, 0)}, 0, localtimestamp, 1)"
            for number, file in enumerate(feed.files)
        )
        if values:
            columns = "query, slice, filename, lines_scanned, errors, curtime, status"
            await place.rows(f"INSERT INTO stl_load_commits ({columns}) VALUES {values}")  # noqa: S608 - numbers, and names of files that are escaped
        await place.rows(
            f"SELECT set_config('standin.copy_count', '{feed.rows}', false),"
            f" set_config('standin.copy_id', '{query}', false)"
        )


@dataclass(frozen=True, slots=True)
class Errors:
    """Where the bad rows of one COPY are told. `header` is the number of lines before a file's first row."""

    place: TargetPlace
    target: Target
    query: int
    session: int
    header: int

    async def failed(self, found: list[tuple[int, BadRow]], feed: Feed) -> RedshiftError:
        """Record the rows, for good; the error that ends the load."""
        await self.record(found, feed)
        message = f"Load into table '{self.target.shown}' failed.  Check 'stl_load_errors' system table for details."
        return RedshiftError(INTERNAL, message)

    async def record(self, found: list[tuple[int, BadRow]], feed: Feed) -> None:
        """Write rows to stl_load_errors, outside of the client's transaction."""
        for number, bad in found:
            fields = await asyncio.to_thread(feed.fields_of, number, bad.row) if not bad.raw_line else []
            column = self.target.columns[bad.column] if bad.column is not None else None
            value = bad.value or (fields[column.number] if column is not None and len(fields) > column.number else "")
            await self.place.cluster.execute(
                "INSERT INTO stl_load_errors (slice, tbl, starttime, session, query, filename, line_number, colname,"
                " type, col_length, position, raw_line, raw_field_value, err_code, err_reason, is_partial,"
                " start_offset)"
                " VALUES (0, %s, localtimestamp, %s, %s, %s, %s, %s, %s, %s, 0, %s, %s, %s, %s, 0, 0)",
                self.target.number,
                self.session,
                self.query,
                feed.files[number].url[:256],
                bad.line + self.header,
                column.name if column else "",
                (column.type_name if column else "")[:10],
                str((column.length if column else None) or ""),
                _cut(bad.raw_line or ",".join(fields), 1024),
                _cut(value, 1024),
                bad.code,
                _cut(bad.reason, 100),
                database=self.place.database,
            )


def plan_copy(statement: Statement) -> Plan:
    """The plan for a COPY statement; RedshiftError for what Redshift refuses."""
    reading = Reading(statement)
    reading.expect("COPY")
    table = reading.qualified_name()
    columns = tuple(reading.column_list()) if reading.peek() == "(" else ()
    reading.expect("FROM")
    if reading.peek() in {"STDIN", "STDOUT"}:
        message = "COPY FROM STDIN is not supported"
        raise refuse(message, hint="COPY takes files on Amazon S3")
    bucket, key = read_source(reading)
    options = CopyOptions()
    options.read(reading)
    return Plan(statement.text, action=Copy(table, columns, bucket, key, options), locks=(table,))


async def _try_load(connection: psycopg.AsyncConnection, feed: Feed, target: Target) -> tuple[int, BadRow] | None:
    """Load into the rehearsal's table; the first bad row, None if there is none."""
    try:
        async with connection.cursor() as cursor, cursor.copy(b"COPY rehearsal FROM STDIN") as copy:
            async for chunk in feed.chunks():
                await copy.write(chunk)
    except BadRowError as error:
        return error.file, error.bad
    except psycopg.Error as error:
        fields = {"C": error.sqlstate or "", "M": str(error.diag.message_primary), "W": error.diag.context or ""}
        found = _bad_row({**fields, "c": error.diag.column_name or ""}, feed, target)
        if found is None:
            raise RedshiftError(INTERNAL, fields["M"]) from error
        return found
    await connection.execute("TRUNCATE rehearsal")
    return None


def _bad_row(fields: Mapping[str, str], feed: Feed, target: Target) -> tuple[int, BadRow] | None:
    """The row that PostgreSQL refused, if its error is about one."""
    found = _LINE.search(fields.get("W", ""))
    if found is None:
        return None
    file, row = feed.place_of(int(found[1]))
    name = (found[2] or fields.get("c", "")).strip()
    column = next((each for each in target.columns if each.name == name), None)
    kind = column.type_text if column else ""
    state = fields.get("C", "")
    match state:
        case "22003":
            code, reason = OUT_OF_RANGE, f"Overflow, Type: {kind}"
        case "23502":
            code, reason = MISSING, "Missing data for not-null field"
        case "22007" | "22008":
            code = _DATE_CODES.get(column.type_name if column else "", BAD_TIMESTAMP)
            reason = fields.get("M", "")
        case "22P02" if column is not None and column.type_name == "super":
            code, reason = BAD_JSON, "Invalid value: not valid JSON"
        case "22P02":
            code, reason = BAD_DIGIT, f"Invalid digit, Value, Pos 0, Type: {kind}"
        case _:
            code, reason = INVALID_LINE, fields.get("M", "")
    return file, BadRow(row, column.number if column else None, code, reason)


def _cut(text: str, size: int) -> str:
    return text.replace("\0", "").encode()[:size].decode(errors="ignore")
