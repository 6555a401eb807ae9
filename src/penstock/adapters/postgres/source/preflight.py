"""Whether a PostgreSQL server can be captured: what it lacks, and what to type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.catalog import read_tables, read_unreadable
from penstock.adapters.postgres.source.connection import UNCHECKED, connect_to_log
from penstock.adapters.postgres.source.ddl_trigger import examine_ddl_trigger
from penstock.adapters.postgres.source.publication import (
    describe_forbidden,
    describe_partitions,
    describe_unidentified,
    publication_exists,
    read_partitions,
    read_published,
    require_whole_publication,
    unidentified_tables,
)
from penstock.adapters.postgres.source.slot import ANOTHER_SLOT, FAILOVER_SINCE, is_foreign, read_slot
from penstock.core.errors import NEW_SLOT, UnfitServerError
from penstock.core.findings import Finding
from penstock.core.postgres.evolution import partitions_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.postgres.source.publication import Publication
    from penstock.adapters.postgres.source.slot import SlotState
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.tables import TableId

_OLDEST: Final = 120000
_REPLICATORS: Final = ("rds_replication", "rds_superuser")
"""Roles whose members may replicate without REPLICATION: Amazon's. Azure and Cloud SQL have administrators set it."""
_ADMINISTRATORS: Final[Mapping[str, str]] = {
    "alloydbsuperuser": "set the flag alloydb.logical_decoding = on of the instance, which restarts it",
    "azure_pg_admin": "set the server parameter wal_level = logical, and restart the server",
    "cloudsqlsuperuser": "set the flag cloudsql.logical_decoding = on of the instance, which restarts it",
    "rds_superuser": "set rds.logical_replication = 1 in the parameter group of the instance or cluster, and reboot it",
}
"""What providers have in place of superusers, and how their servers get a log with rows."""
_PER_MAJOR: Final = 10000
_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class LogAccess:
    """How a source's log is read: the login, the slot and the publication.

    `is_failover`: standbys are to keep the slot. `has_ddl_trigger`: event triggers are to write ALTER TABLE into it.
    """

    server: PostgresServer
    slot: str
    publication: Publication
    is_failover: bool
    has_ddl_trigger: bool = False


def examine_source(
    connection: psycopg.Connection, access: LogAccess, wanted: Callable[[TableId], bool]
) -> Iterator[Finding]:
    """Look at settings, our rights, the slot, the publication and the wanted tables. Raises psycopg.Error."""
    yield from _server(connection)
    yield from _rights(connection, access.server)
    yield from _standbys(connection)
    if access.is_failover:
        yield from _failover(connection)
    if access.has_ddl_trigger:
        yield examine_ddl_trigger(connection, access.publication.name)
    yield from _slot(connection, access)
    yield from _tables(connection, access.publication, wanted)


def require_fit(connection: psycopg.Connection, access: LogAccess) -> None:
    """Raise UnfitServerError with everything that the server, or our login, lacks. Raises psycopg.Error."""
    failover = _failover(connection) if access.is_failover else ()
    found = (*_server(connection), *_rights(connection, access.server), *failover)
    wrong = [each for each in found if each.level == "error"]
    if wrong:
        raise UnfitServerError("; ".join(each.message for each in wrong), "; ".join(each.hint for each in wrong))


def _server(connection: psycopg.Connection) -> Iterator[Finding]:
    version = connection.info.server_version
    if version < _OLDEST:
        message = f"the server is PostgreSQL {version // _PER_MAJOR}"
        yield Finding("error", "version", message, f"use PostgreSQL {_OLDEST // _PER_MAJOR} or later")
        return
    yield Finding("ok", "version", f"PostgreSQL {version // _PER_MAJOR}.{version % _PER_MAJOR}")
    if connection.info.parameter_status("server_encoding") == UNCHECKED:
        message = f"the database is {UNCHECKED}, which checks no text: a value that is no UTF-8 stops its table"
        hint = "correct such values, or move the tables to a database of encoding UTF8"
        yield Finding("warning", "encoding", message, hint)
    row = connection.execute(
        "SELECT current_setting('wal_level'), pg_is_in_recovery(), current_setting('max_wal_senders')::int,"
        " (SELECT count(*) FROM pg_stat_replication)"
    ).fetchone()
    level, in_recovery, senders_max, senders = row or ("", False, 0, 0)
    if level != "logical":
        roles = connection.execute("SELECT rolname::text FROM pg_roles").fetchall()
        provided = [_ADMINISTRATORS[role] for (role,) in roles if role in _ADMINISTRATORS]
        hint = provided[0] if provided else "ALTER SYSTEM SET wal_level = 'logical', and restart the server"
        yield Finding("error", "wal_level", f"wal_level is {level}, so its log has no rows", hint)
    else:
        yield Finding("ok", "wal_level", "logical")
    if in_recovery:
        yield Finding("error", "role", "the server is a standby", "let `host` and `port` lead to the primary")
    if senders >= senders_max:
        message = f"all {senders_max} walsenders are busy"
        yield Finding("warning", "max_wal_senders", message, "raise max_wal_senders, and restart the server")


def _rights(connection: psycopg.Connection, server: PostgresServer) -> Iterator[Finding]:
    row = connection.execute(
        "SELECT rolreplication OR rolsuper, rolname FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    may_replicate, role = row or (False, "")
    by = _member_of(connection, _REPLICATORS)
    if may_replicate:
        yield Finding("ok", "replication", f"{role} may read the log")
    elif by:
        yield Finding("ok", "replication", f"{role} may read the log, as a member of {by}")
    else:
        yield _answer_of(server, role)


def _answer_of(server: PostgresServer, role: str) -> Finding:
    """What the server itself says: providers have rules of their own, which its catalog does not tell."""
    try:
        connect_to_log(server).close()
    except UnfitServerError as error:
        hint = f"ALTER ROLE {role} REPLICATION, or on Amazon RDS GRANT rds_replication TO {role}"
        return Finding("error", "replication", f"{role} may not read the log: {error.message}", hint)
    return Finding("ok", "replication", f"{role} may read the log, as the server says")


def _member_of(connection: psycopg.Connection, roles: Sequence[str]) -> str:
    """The first of these roles that is there and that we are a member of; "" for none."""
    row = connection.execute(
        "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) AND pg_has_role(oid, 'MEMBER') ORDER BY 1", (list(roles),)
    ).fetchone()
    return str(row[0]) if row else ""


def _standbys(connection: psycopg.Connection) -> Iterator[Finding]:
    """Commits that wait for a synchronous standby are in the log before they are seen: we have to see who waits."""
    row = connection.execute(
        "SELECT current_setting('synchronous_standby_names'), pg_has_role('pg_read_all_stats', 'USAGE')"
    ).fetchone()
    names, may_see = row or ("", True)
    if not names:
        return
    if may_see:
        yield Finding("ok", "standbys", f"we see which commits wait for {names}")
        return
    message = (
        f"commits wait for {names}, and we may not see which: a chunk of a snapshot that is read behind a start may "
        "put an older row over a newer one"
    )
    yield Finding("warning", "standbys", message, f"GRANT pg_read_all_stats TO {connection.info.user}")


def _failover(connection: psycopg.Connection) -> Iterator[Finding]:
    version = connection.info.server_version
    if version < FAILOVER_SINCE:
        message = f"PostgreSQL {version // _PER_MAJOR} has no failover slots, and the source has `failover: true`"
        hint = f"take `failover` out of the source, or use PostgreSQL {FAILOVER_SINCE // _PER_MAJOR} or later"
        yield Finding("error", "failover", message, hint)
        return
    row = connection.execute("SELECT current_setting('synchronized_standby_slots')").fetchone()
    if row and row[0]:
        yield Finding("ok", "failover", f"we read nothing that {row[0]} do not have")
    else:
        message = "synchronized_standby_slots names no standby, so one that is promoted may lack what we have published"
        hint = (
            "ALTER SYSTEM SET synchronized_standby_slots = '...', the standby's physical slot; SELECT pg_reload_conf()"
        )
        yield Finding("warning", "failover", message, hint)


def _slot(connection: psycopg.Connection, access: LogAccess) -> Iterator[Finding]:
    name, found = access.slot, read_slot(connection, access.slot)
    if found is None:
        yield from _room_for_slot(connection, name)
        return
    yield _judge(found, name, connection.info.dbname)
    if access.is_failover and not found.is_failover:
        message = "standbys do not keep it: it was not made as a failover slot"
        yield Finding("warning", f"slot {name}", message, "start the pipeline again: it makes it one")


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
        return Finding("error", f"slot {name}", "has lost log that was not read yet", NEW_SLOT)
    if found.wal_status == "unreserved":
        hint = "run the pipeline now: the server may remove that log at any moment (max_slot_wal_keep_size)"
        return Finding("error", f"slot {name}", f"{kept}, more than it may", hint)
    read = "is read" if found.is_active else "nobody reads it now"
    return Finding("ok", f"slot {name}", f"{kept}; {read}{'; standbys keep it too' if found.is_failover else ''}")


def _tables(
    connection: psycopg.Connection, publication: Publication, wanted: Callable[[TableId], bool]
) -> Iterator[Finding]:
    found = read_tables(connection, publication.partitions)
    tables = {each.table.id: each for each in found}
    ours = [table for table in tables if wanted(table)]
    if not ours:
        yield Finding("warning", "tables", "no table matches `tables` yet", "create one, or correct the patterns")
    if publication_exists(connection, publication.name):
        yield from _publication(connection, publication, [tables[table] for table in ours])
    else:
        yield _publication_to_make(connection, publication)
    keyless = [table for table in ours if not tables[table].has_identity]
    if keyless:
        message = f"{_shown(keyless)}: no primary key and no replica identity, so only new rows can be carried"
        yield Finding("warning", "keys", message, f"ALTER TABLE {keyless[0]} REPLICA IDENTITY FULL, or add a key")
    yield from _partitions([tables[table] for table in ours])
    refused = read_unreadable(connection)
    unread = [table for table in ours if table in refused]
    if unread:
        reasons = list(dict.fromkeys(refused[table][0] for table in unread))
        hints = dict.fromkeys(refused[table][1] for table in unread[:_SHOWN_MAX])
        yield Finding("error", "grants", f"{_shown(unread)}: {'; '.join(reasons)}", "; ".join(hints))


def _publication(
    connection: psycopg.Connection, publication: Publication, ours: Sequence[SourceTable]
) -> Iterator[Finding]:
    """A publication that is there: what it leaves out, and whether it has partitions as the source wants them."""
    name = publication.name
    subject = f"publication {name}"
    try:
        require_whole_publication(connection, publication)
    except UnfitServerError as error:
        yield Finding("error", f"{subject}, options", error.message, error.hint)
    if read_partitions(connection, name) != publication.partitions:
        if publication.partitions == "many":
            return
        if any(each.is_partitioned for each in ours):
            yield Finding("error", f"{subject}, options", *describe_partitions(publication))
            return
    published = read_published(connection, name)
    missing = [each.table.id for each in ours if each.table.id not in published]
    if missing:
        message = f"lacks {_shown(missing)}, which would not be carried"
        hint = f"ALTER PUBLICATION {name} ADD TABLE {', '.join(map(str, missing))}; then start the pipeline"
        yield Finding("warning", subject, message, hint)
    else:
        yield Finding("ok", subject, "has the wanted tables")


def _partitions(ours: Sequence[SourceTable]) -> Iterator[Finding]:
    """Partitions have replica identities of their own, which tell less than the table's seems to."""
    for each in ours:
        relation, table = each.relation, each.table
        is_whole = relation.identity == "f"
        key = table.key if is_whole else tuple(column.name for column in relation.columns if column.in_identity)
        found = partitions_refusal(table.id, key, is_whole=is_whole, partitions=table.partitions or ())
        if found is not None:
            yield Finding("warning", "keys", f"{table.id}: {found.reason}, so it stops", found.hint)
        elif is_whole and any(leaf.identity for leaf in table.partitions or ()):
            names = ", ".join(leaf.name for leaf in table.partitions or () if leaf.identity)
            message = f"{table.id}: REPLICA IDENTITY FULL does not hold for partitions of it: {names}"
            yield Finding("warning", "keys", message, "ALTER TABLE ... REPLICA IDENTITY FULL of each of them")


def _publication_to_make(connection: psycopg.Connection, publication: Publication) -> Finding:
    """A first start makes the publication, of all tables, if it may."""
    subject = f"publication {publication.name}"
    unfit = unidentified_tables(connection, publication.partitions)
    if unfit:
        return Finding("error", subject, *describe_unidentified(publication, unfit))
    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row and row[0]:
        return Finding("ok", subject, "is made at the first start, of all tables")
    by = _member_of(connection, tuple(_ADMINISTRATORS))
    if by:
        return Finding("ok", subject, f"is made at the first start, of all tables, if {by} may")
    # Some providers let others make one of all tables: the start tries.
    return Finding("warning", subject, *describe_forbidden(publication, connection.info.user))


def _shown(tables: list[TableId]) -> str:
    return ", ".join(map(str, tables[:_SHOWN_MAX])) + (
        f" and {len(tables) - _SHOWN_MAX} more" if len(tables) > _SHOWN_MAX else ""
    )
