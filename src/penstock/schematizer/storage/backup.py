"""Backup and restore of a registry, from any kind of database to any other.

Tables and columns are found in the database itself, so an older database is
backed up as it is. Which tables are a registry's, the models say: others may be
in the same database, and are left alone.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
import structlog
from pydantic import JsonValue, TypeAdapter
from sqlalchemy.exc import DBAPIError

from penstock.core.errors import UnavailableError, UsageError
from penstock.schematizer.storage import id_counters
from penstock.schematizer.storage.association_models import Association
from penstock.schematizer.storage.backup_file import Head, TableHead, read_backup, write_backup
from penstock.schematizer.storage.database import newest_revision, now_ms, open_engine
from penstock.schematizer.storage.execution_options import FOR_WRITING
from penstock.schematizer.storage.models import Model
from penstock.schematizer.storage.upgrade import current_revision, known_revisions, upgrade
from penstock.schematizer.storage.usage_models import Refresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from penstock.schematizer.storage.backup_file import Backup, Row

_log = structlog.get_logger()
_VERSION_TABLE = "alembic_version"
# Every table that a release has had: none was ever dropped. All models have the same metadata, once they are imported.
_OWN = frozenset({*Association.metadata.tables, *Refresh.metadata.tables})
_BATCH_ROWS = 500
_BATCH_CHARACTERS = 1 << 22
_KINDS: dict[type, str] = {int: "integer", float: "number", str: "text", bool: "boolean", bytes: "bytes"}
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "integer": sa.BigInteger(),
    "number": sa.Float(),
    "text": sa.Text(),
    "boolean": sa.Boolean(),
    "bytes": sa.LargeBinary(),
    "json": sa.JSON(none_as_null=True),
}
_any_json: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def backup(database_url: str, file: Path) -> dict[str, int]:
    """Write what a registry has at one moment to `file`; services may go on. Returns the rows of each table.

    Raises UsageError where there is no registry, or the file cannot be written,
    and UnavailableError when the database does not answer.
    """
    engine = open_engine(database_url)
    try:
        with _snapshot(engine) as connection:
            revision = _checked_revision(connection)
            tables = _tables(connection)
            heads = [_head(connection, table) for table in tables]
            head = Head(revision=revision, created_at_ms=now_ms(), tables=heads)
            counts = write_backup(file, head, _rows(connection, tables, heads))
    except DBAPIError as error:
        raise _unavailable(engine, error) from error
    finally:
        engine.dispose()
    return {table.name: count for table, count in zip(heads, counts, strict=True)}


def restore(database_url: str, file: Path, *, replace: bool = False) -> dict[str, int]:
    """Fill a database from a backup, all or nothing, and bring its tables up to date. Returns the rows of each table.

    `replace` throws away what is in the database; no service may run on it.
    Raises UsageError for a file that is not whole, for a database that is not
    empty, and for a backup of a newer release; UnavailableError when the
    database does not answer.
    """
    found = read_backup(file)
    if found.head.revision not in known_revisions():
        message = f"the backup {file} is of a newer release (revision {found.head.revision})"
        raise UsageError(message, "upgrade Penstock first")
    engine = open_engine(database_url, create=True)
    try:
        _prepare(engine, found.head.revision, replace=replace)
        _fill(engine, found)
        upgrade(engine, newest_revision())
    except DBAPIError as error:
        raise _unavailable(engine, error) from error
    finally:
        engine.dispose()
    counts = {table.name: count for table, count in zip(found.head.tables, found.rows, strict=True)}
    foreign = sorted(counts.keys() - _OWN)
    if foreign:
        _log.warning("tables are not restored", tables=foreign, reason="they are no registry's")
    return {name: count for name, count in counts.items() if name in _OWN}


def _snapshot(engine: Engine) -> Connection:
    """Return a connection that sees the database as it is at its first question."""
    connection = engine.connect()
    if engine.dialect.name != "sqlite":
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
    return connection.execution_options(yield_per=_BATCH_ROWS)


def _checked_revision(connection: Connection) -> str:
    revision = current_revision(connection)
    if revision is None:
        message = f"there is no registry in {connection.engine.url!r}"
        raise UsageError(message, "check --url")
    if revision not in known_revisions():
        message = f"the registry in {connection.engine.url!r} is of a newer release (revision {revision})"
        raise UsageError(message, "upgrade Penstock first")
    return revision


def _tables(connection: Connection) -> list[sa.Table]:
    """Return the registry's tables, as they are in the database, those before which others refer to."""
    return [table for table in _reflect(connection, _OWN).sorted_tables if table.name in _OWN]


def _reflect(connection: Connection, names: AbstractSet[str]) -> sa.MetaData:
    found = sa.MetaData()
    found.reflect(connection, only=lambda name, _: name in names)
    return found


def _head(connection: Connection, table: sa.Table) -> TableHead:
    columns = [(column.name, _kind(table.name, column)) for column in table.columns]
    return TableHead(name=table.name, columns=columns, next_id=id_counters.read_next_id(connection, table))


def _kind(table: str, found: sa.Column[Any]) -> str:
    """Return the kind of a column: as the models know it, because databases know some types by other names."""
    known = Model.metadata.tables.get(table)
    column = known.columns.get(found.name) if known is not None else None
    kind = (found if column is None else column).type
    return "json" if isinstance(kind, sa.JSON) else _KINDS[kind.python_type]


def _typed(head: TableHead) -> sa.TableClause:
    return sa.table(head.name, *(sa.column(name, _TYPES[kind]) for name, kind in head.columns))


def _rows(connection: Connection, tables: list[sa.Table], heads: list[TableHead]) -> Iterator[Row]:
    for number, (table, head) in enumerate(zip(tables, heads, strict=True)):
        typed = _typed(head)
        query = sa.select(typed).order_by(*(typed.c[column.name] for column in table.primary_key))
        for row in connection.execute(query):
            yield number, [_written(value) for value in row]


def _written(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _any_json.validate_python(value)


def _prepare(engine: Engine, revision: str, *, replace: bool) -> None:
    """See to it that the database has the tables of `revision`. Raises UsageError where it has more than that."""
    with engine.connect() as connection:
        tables = _tables(connection)
        present = current_revision(connection)
        has_others = bool(set(sa.inspect(connection).get_table_names()) - {_VERSION_TABLE})
        filled = [table.name for table in tables if connection.execute(sa.select(table).limit(1)).first() is not None]
    if has_others and present is None:
        message = f"{engine.url!r} has tables that are not a registry's"
        hint = "restore into an empty database; to have both in one, begin a registry there: penstock schematizer serve"
        raise UsageError(message, hint)
    if filled and not replace:
        message = f"the registry in {engine.url!r} is not empty"
        raise UsageError(message, "restore into an empty database, or say --replace to throw away what is there")
    if filled and present != revision:
        message = f"the backup is of another release (revision {revision}) than the registry in {engine.url!r}"
        raise UsageError(message, "restore it into an empty database")
    if present not in {None, revision}:
        with engine.connect().execution_options(**{FOR_WRITING: True}) as connection, connection.begin():
            _reflect(connection, _OWN | {_VERSION_TABLE}).drop_all(connection)
    upgrade(engine, revision)


def _fill(engine: Engine, found: Backup) -> None:
    with engine.connect().execution_options(**{FOR_WRITING: True}) as connection, connection.begin():
        tables = {table.name: table for table in _tables(connection)}
        missing = [head.name for head in found.head.tables if head.name in _OWN and head.name not in tables]
        if missing:
            message = f"the backup has tables that its release did not have: {', '.join(missing)}"
            raise UsageError(message, "restore it with the release that wrote it")
    # MySQL commits where this is set, so it comes first. In a database without rows it changes nothing else.
    with engine.connect().execution_options(**{FOR_WRITING: True}) as connection, connection.begin():
        if id_counters.is_set_by_ddl(connection):
            _set_counters(connection, found, tables)
    with engine.connect().execution_options(**{FOR_WRITING: True}) as connection, connection.begin():
        for table in reversed(tables.values()):
            _empty(connection, table)
        for number, values in _batches(found):
            head = found.head.tables[number]
            if head.name not in _OWN:
                continue
            connection.execute(_typed(head).insert(), [_read(head, each) for each in values])
        if not id_counters.is_set_by_ddl(connection):
            _set_counters(connection, found, tables)


def _empty(connection: Connection, table: sa.Table) -> None:
    """Delete every row; first what refers to others of the same table, which MySQL looks at row by row."""
    inward = {key.parent.name: None for key in table.foreign_keys if key.column.table is table}
    if inward:
        connection.execute(sa.update(table).values(inward))
    connection.execute(sa.delete(table))


def _set_counters(connection: Connection, found: Backup, tables: Mapping[str, sa.Table]) -> None:
    for head in found.head.tables:
        if head.next_id is not None and head.name in _OWN:
            id_counters.set_next_id(connection, tables[head.name], head.next_id)


def _batches(found: Backup) -> Iterator[tuple[int, list[list[JsonValue]]]]:
    """Yield rows of one table together, some at a time."""
    number, batch, size = 0, list[list[JsonValue]](), 0
    for table, values in found.read_rows():
        if batch and (table != number or len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARACTERS):
            yield number, batch
            batch, size = [], 0
        number = table
        batch.append(values)
        size += sum(len(value) for value in values if isinstance(value, str))
    if batch:
        yield number, batch


def _read(head: TableHead, values: list[JsonValue]) -> dict[str, object]:
    return {
        name: base64.b64decode(value) if kind == "bytes" and isinstance(value, str) else value
        for (name, kind), value in zip(head.columns, values, strict=True)
    }


def _unavailable(engine: Engine, error: DBAPIError) -> UnavailableError:
    message = f"the registry's database {engine.url!r} cannot be used: {error.orig}"
    return UnavailableError(message, "check the URL, and that the server runs or the folder can be written")
