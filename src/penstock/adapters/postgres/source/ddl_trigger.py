"""Event triggers that write into a table of ours what ALTER TABLE makes of a table, where the log has no DDL.

Source: PostgreSQL 18 documentation, "Event Triggers" and "Event Trigger Functions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import errors, sql

from penstock.adapters.postgres.source.catalog import COLUMNS, KEPT, KEYS, TABLES
from penstock.adapters.postgres.source.connection import PRINTED
from penstock.adapters.postgres.source.publication import read_numbers
from penstock.core.errors import UnfitServerError
from penstock.core.findings import Finding
from penstock.core.postgres.catalog import DDL_LOG, ColumnRow, KeyRow, TableRow

if TYPE_CHECKING:
    import psycopg

_TRIGGERS: Final = ("penstock_ddl", "penstock_ddl_rewrite")
_ENABLED: Final = ("O", "A")
_FIELDS: Final = {"table": TableRow._fields, "columns": ColumnRow._fields, "keys": KeyRow._fields}
_OF_ONE: Final = "ARRAY[altered]"
# A table whose rows are published without some columns is described by the log alone. The older the release that
# made the function, the fewer columns has its pg_publication_rel: so these are asked for by name. Of every table is
# told that it becomes UNLOGGED, or was: this is 1 among the reasons to write it anew.
_WANTED: Final = """
c.oid = altered AND c.relkind IN ('r', 'p') AND (is_switched OR c.relpersistence = 'p' AND NOT EXISTS (
    SELECT FROM pg_publication_rel r WHERE r.prrelid = c.oid AND to_jsonb(r)->>'prattrs' IS NOT NULL))
"""
# What became of a table before there were triggers, or while they were disabled, is in its catalog alone. But one that
# TRUNCATE wrote anew may get a column NOT NULL, and has no older rows.
_EMPTY: Final = "WHEN c.relkind = 'r' AND pg_relation_size(c.oid) = 0 THEN false"
# A statement of others must not fail for us: without the row, the next changed row tells of the table, as ever. Nor
# may it wait for one in another transaction, which deletes the same old rows.
_FUNCTION: Final = """
CREATE FUNCTION penstock_ddl.tell() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp {printed} AS $penstock$
DECLARE
  altered oid;
  changed oid[];
  is_switched boolean := false;
BEGIN
  IF tg_event = 'table_rewrite' THEN
    changed := ARRAY[pg_event_trigger_table_rewrite_oid()];
    is_switched := pg_event_trigger_table_rewrite_reason() & 1 <> 0;
  ELSE
    changed := ARRAY(SELECT DISTINCT objid FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass);
  END IF;
  DELETE FROM penstock_ddl.log WHERE number IN (
    SELECT number FROM penstock_ddl.log WHERE written < now() - interval '7 days' FOR UPDATE SKIP LOCKED);
  FOREACH altered IN ARRAY changed LOOP
    INSERT INTO penstock_ddl.log (described)
    SELECT json_build_object('is_switched', is_switched, 'table', row_to_json(t), 'columns', ({columns}),
                             'keys', ({keys}))::text
      FROM ({table}) t ({table_fields});
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'penstock_ddl.tell: %', sqlerrm;
END $penstock$
"""
_LISTED: Final = "SELECT json_agg(row_to_json(x)) FROM ({query}) x ({fields})"
# Nothing of it is taken over: on a table of somebody else's the function would do with a superuser's rights what its
# owner wants.
_STATEMENTS: Final = (
    "DROP SCHEMA IF EXISTS penstock_ddl CASCADE",
    "CREATE SCHEMA penstock_ddl",
    (
        "CREATE TABLE penstock_ddl.log (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " written timestamptz NOT NULL DEFAULT now(), described text NOT NULL)"
    ),
    _FUNCTION,
    (
        "CREATE EVENT TRIGGER penstock_ddl ON ddl_command_end WHEN TAG IN ('ALTER TABLE')"
        " EXECUTE FUNCTION penstock_ddl.tell()"
    ),
    (
        "CREATE EVENT TRIGGER penstock_ddl_rewrite ON table_rewrite WHEN TAG IN ('ALTER TABLE')"
        " EXECUTE FUNCTION penstock_ddl.tell()"
    ),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is: event triggers that fire, and whether the publication has the table that they write."""

    triggers: frozenset[str]
    is_published: bool

    @property
    def has_triggers(self) -> bool:
        return self.triggers.issuperset(_TRIGGERS)

    @property
    def is_whole(self) -> bool:
        return self.has_triggers and self.is_published


def trigger_statements() -> list[str]:
    """What makes the triggers, one statement each; a superuser has to type them."""
    parts = {
        "columns": _listed(COLUMNS.format(oids=_OF_ONE, kept=_EMPTY + KEPT, again="false"), "columns"),
        "keys": _listed(KEYS.format(oids=_OF_ONE), "keys"),
        "table": TABLES.format(which=_WANTED),
        "table_fields": ", ".join(_FIELDS["table"]),
        # Whoever types ALTER TABLE may have values printed otherwise.
        "printed": " ".join(f"SET {name} = '{value}'" for name, value in PRINTED.items()),
    }
    return [each.format(**parts) if each is _FUNCTION else each for each in _STATEMENTS]


def ensure_ddl_trigger(connection: psycopg.Connection, publication: str) -> None:
    """Make the triggers unless they are there, and have them published.

    Raises UnfitServerError where we may not. Raises psycopg.Error.
    """
    found = _read(connection, publication)
    if found.is_whole:
        return
    try:
        with connection.transaction():
            # Of several pipelines that start at once, one makes them.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock_ddl'))")
            if not _read(connection, publication).has_triggers:
                for statement in trigger_statements():
                    connection.execute(statement.encode())
            if not _read(connection, publication).is_published:
                added = sql.Identifier(publication), sql.Identifier(DDL_LOG.schema, DDL_LOG.name)
                connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(*added))
    except errors.InsufficientPrivilege as error:
        raise UnfitServerError(*_describe(connection, publication, found)) from error


def examine_ddl_trigger(connection: psycopg.Connection, publication: str) -> Finding:
    """Say whether the triggers are there, or can be made by a start. Raises psycopg.Error."""
    found = _read(connection, publication)
    if found.is_whole:
        return Finding("ok", "ddl_trigger", "event triggers write ALTER TABLE into the log")
    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row and row[0]:
        return Finding("ok", "ddl_trigger", "event triggers are made at the next start")
    # Some providers let others make them: the start tries.
    return Finding("warning", "ddl_trigger", *_describe(connection, publication, found))


def _read(connection: psycopg.Connection, publication: str) -> _Found:
    rows = connection.execute(
        "SELECT evtname::text FROM pg_event_trigger WHERE evtname = ANY(%s) AND evtenabled::text = ANY(%s)",
        (list(_TRIGGERS), list(_ENABLED)),
    ).fetchall()
    # By its name, without a right to its schema.
    log = connection.execute(
        "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        (DDL_LOG.schema, DDL_LOG.name),
    ).fetchone()
    is_published = log is not None and read_numbers(connection, publication, log[0])[0] is not None
    return _Found(frozenset(name for (name,) in rows), is_published)


def _describe(connection: psycopg.Connection, publication: str, found: _Found) -> tuple[str, str]:
    """Say what is missing, and what to type."""
    user = connection.info.user
    if not found.has_triggers:
        message = f"the source has `ddl_trigger: true`, and {user} may not make event triggers"
        hint = (
            "type as a superuser what docs/postgres.md has for it, or let `user` be a superuser for one start; or take "
            "`ddl_trigger` out of the source"
        )
        return message, hint
    message = f"the source has `ddl_trigger: true`, and the publication {publication} lacks {DDL_LOG}"
    return message, f"as its owner: ALTER PUBLICATION {publication} ADD TABLE {DDL_LOG}"


def _listed(query: str, kind: str) -> str:
    return _LISTED.format(query=query, fields=", ".join(_FIELDS[kind]))
