"""Whether a PostgreSQL server can be captured: what it lacks, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.catalog import read_tables, read_unreadable
from penstock.adapters.postgres.source.publication import (
    describe_unidentified,
    publication_exists,
    read_published,
    require_whole_publication,
    unidentified_tables,
)
from penstock.adapters.postgres.source.slot import ANOTHER_SLOT, is_foreign, read_slot
from penstock.core.errors import START_ANEW, UnfitServerError
from penstock.core.findings import Finding
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from penstock.adapters.postgres.source.slot import SlotState

_OLDEST: Final = 120000
_PER_MAJOR: Final = 10000
_SHOWN_MAX: Final = 10


def examine_source(
    connection: psycopg.Connection, slot: str, publication: str, wanted: Callable[[TableId], bool]
) -> Iterator[Finding]:
    """Look at settings, our rights, the slot, the publication and the wanted tables. Raises psycopg.Error."""
    yield from _server(connection)
    yield from _rights(connection)
    yield from _slot(connection, slot)
    yield from _tables(connection, publication, wanted)


def require_fit(connection: psycopg.Connection) -> None:
    """Raise UnfitServerError with everything that the server, or our login, lacks. Raises psycopg.Error."""
    wrong = [each for each in (*_server(connection), *_rights(connection)) if each.level == "error"]
    if wrong:
        raise UnfitServerError("; ".join(each.message for each in wrong), "; ".join(each.hint for each in wrong))


def _server(connection: psycopg.Connection) -> Iterator[Finding]:
    version = connection.info.server_version
    if version < _OLDEST:
        message = f"the server is PostgreSQL {version // _PER_MAJOR}"
        yield Finding("error", "version", message, f"use PostgreSQL {_OLDEST // _PER_MAJOR} or later")
        return
    yield Finding("ok", "version", f"PostgreSQL {version // _PER_MAJOR}.{version % _PER_MAJOR}")
    row = connection.execute(
        "SELECT current_setting('wal_level'), pg_is_in_recovery(), current_setting('max_wal_senders')::int,"
        " (SELECT count(*) FROM pg_stat_replication)"
    ).fetchone()
    level, in_recovery, senders_max, senders = row or ("", False, 0, 0)
    if level != "logical":
        hint = "ALTER SYSTEM SET wal_level = 'logical', and restart the server"
        yield Finding("error", "wal_level", f"wal_level is {level}, so its log has no rows", hint)
    else:
        yield Finding("ok", "wal_level", "logical")
    if in_recovery:
        yield Finding("error", "role", "the server is a standby", "let `host` and `port` lead to the primary")
    if senders >= senders_max:
        message = f"all {senders_max} walsenders are busy"
        yield Finding("warning", "max_wal_senders", message, "raise max_wal_senders, and restart the server")


def _rights(connection: psycopg.Connection) -> Iterator[Finding]:
    row = connection.execute(
        "SELECT rolreplication OR rolsuper, rolname FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    may_replicate, role = row or (False, "")
    if may_replicate:
        yield Finding("ok", "replication", f"{role} may read the log")
    else:
        yield Finding("error", "replication", f"{role} may not read the log", f"ALTER ROLE {role} REPLICATION")


def _slot(connection: psycopg.Connection, name: str) -> Iterator[Finding]:
    found = read_slot(connection, name)
    if found is None:
        yield from _room_for_slot(connection, name)
    else:
        yield _judge(found, name, connection.info.dbname)


def _room_for_slot(connection: psycopg.Connection, name: str) -> Iterator[Finding]:
    """A first start makes the slot, if there is room for it."""
    row = connection.execute(
        "SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)"
    ).fetchone()
    most, taken = row or (0, 0)
    if taken < most:
        yield Finding("ok", f"slot {name}", "is made at the first start")
        return
    message = f"cannot be made at the first start: all {most} replication slots are taken"
    hint = (
        "SELECT pg_drop_replication_slot(...) for one that nobody needs (see the view pg_replication_slots), or "
        f"ALTER SYSTEM SET max_replication_slots = {most + 5}, and restart the server"
    )
    yield Finding("error", f"slot {name}", message, hint)


def _judge(found: SlotState, name: str, database: str) -> Finding:
    if is_foreign(found, database):
        owner = found.plugin or "a physical standby"
        message = f"is of {owner} in the database {found.database or '-'}, and not this pipeline's"
        return Finding("error", f"slot {name}", message, ANOTHER_SLOT)
    kept = f"keeps {found.retained_bytes >> 20:,} MiB of log"
    if found.wal_status == "lost":
        hint = f"SELECT pg_drop_replication_slot('{name}'), and {START_ANEW}"
        return Finding("error", f"slot {name}", "has lost log that was not read yet", hint)
    if found.wal_status == "unreserved":
        hint = "run the pipeline now: the server may remove that log at any moment (max_slot_wal_keep_size)"
        return Finding("error", f"slot {name}", f"{kept}, more than it may", hint)
    return Finding("ok", f"slot {name}", f"{kept}; {'is read' if found.is_active else 'nobody reads it now'}")


def _tables(connection: psycopg.Connection, publication: str, wanted: Callable[[TableId], bool]) -> Iterator[Finding]:
    tables = {TableId(each.table.schema, each.table.name): each for each in read_tables(connection)}
    ours = [table for table in tables if wanted(table)]
    subject = f"publication {publication}"
    if not ours:
        yield Finding("warning", "tables", "no table matches `tables` yet", "create one, or correct the patterns")
    if publication_exists(connection, publication):
        yield from _partial(connection, publication)
        published = read_published(connection, publication)
        missing = [table for table in ours if table not in published]
        if missing:
            message = f"lacks {_shown(missing)}, which would not be carried"
            hint = f"ALTER PUBLICATION {publication} ADD TABLE {', '.join(map(str, missing))}; then start the pipeline"
            yield Finding("warning", subject, message, hint)
        else:
            yield Finding("ok", subject, "has the wanted tables")
    else:
        unfit = unidentified_tables(connection)
        if unfit:
            yield Finding("error", subject, *describe_unidentified(publication, unfit))
        else:
            yield Finding("ok", subject, "is made at the first start, of all tables")
    keyless = [table for table in ours if not tables[table].has_identity]
    if keyless:
        message = f"{_shown(keyless)}: no primary key and no replica identity, so only new rows can be carried"
        yield Finding("warning", "keys", message, f"ALTER TABLE {keyless[0]} REPLICA IDENTITY FULL, or add a key")
    refused = read_unreadable(connection)
    unread = [table for table in ours if table in refused]
    if unread:
        role = connection.info.user
        hint = "; ".join(f"GRANT SELECT ON {table} TO {role}" for table in unread[:_SHOWN_MAX])
        yield Finding("error", "grants", f"{role} may not read {_shown(unread)}", hint)


def _partial(connection: psycopg.Connection, publication: str) -> Iterator[Finding]:
    try:
        require_whole_publication(connection, publication)
    except UnfitServerError as error:
        yield Finding("error", f"publication {publication}, publish", error.message, error.hint)


def _shown(tables: list[TableId]) -> str:
    return ", ".join(map(str, tables[:_SHOWN_MAX])) + (
        f" and {len(tables) - _SHOWN_MAX} more" if len(tables) > _SHOWN_MAX else ""
    )
