"""Audits a table of one database against one of another, both given by URL, without any pipeline's file."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.adapters.duckdb.audited_files import AuditedFiles
from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.objects.local_copies import LocalCopies
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.audit.file_dialect import DELTA, PARQUET
from penstock.core.audit.findings import TableFindings
from penstock.core.audit.found_tables import FoundColumn, FoundTable, columns_of, plan_found
from penstock.core.audit.report import AuditReport
from penstock.core.errors import UsageError
from penstock.links.audit.catalog import find_table, no_table
from penstock.links.audit.lake_tables import DeltaTables, ParquetTables
from penstock.links.audit.table import Databases, audit_table
from penstock.links.audit.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from penstock.adapters.redshift.connection import RedshiftCluster
    from penstock.core.audit.dialects import HashForm
    from penstock.core.audit.table_plan import TablePlan
    from penstock.core.tables import TableId
    from penstock.links.audit.compare import Bounds
    from penstock.ports.audited import AuditedDatabase

_FORMS = (
    "mysql://user:password@host:3306, postgresql://user:password@host/database,"
    " redshift://user:password@host/database, duckdb:///file, delta:///folder,"
    " parquet:///folder or topic://host:9092/TOPIC?schematizer=http://host:8081"
)
_NESTED = "a nested type"
_TOPIC = "topic"
_MYSQL_PORT, _POSTGRES_PORT, _REDSHIFT_PORT = 3306, 5432, 5439


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table, and the database that it is in; `password` counts where the URL has none."""

    url: str = field(repr=False)
    table: TableId
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class HowCompared:
    """By what rows are matched and hashed, and which count, in the source's SQL; see `plan_found`."""

    key: tuple[str, ...] = ()
    form: HashForm = "sha256"
    where: str = ""


def audit_urls(source: TableAt, target: TableAt, bounds: Bounds, how: HowCompared = HowCompared()) -> AuditReport:
    """Compare two tables, that may be written to meanwhile: rows that differ are looked at again.

    Raises UsageError for URLs and tables that are not understood, and what connecting and reading raises.
    """
    began, began_at_ms = time.monotonic(), time.time_ns() // 1_000_000
    with ExitStack() as stack:
        databases = Databases(_open(source, stack), _open(target, stack))
        databases.source.renew()
        databases.target.renew()
        mine, theirs = _find(databases.source, source), _find(databases.target, target)
        plan = plan_found(mine, theirs, how.key, how.form, where=how.where)
        found = _audit(str(source.table), databases, plan, bounds)
    seconds = time.monotonic() - began
    findings = replace(found, seconds=seconds)
    places = (_place(source), _place(target))
    return AuditReport("", *places, 1.0, bounds.k, began_at_ms, seconds, (findings,))


def _audit(table: str, databases: Databases, plan: TablePlan, bounds: Bounds) -> TableFindings:
    """Compare, unless a topic has not all of its table's changes: it may turn out so in the end."""
    topics = [side for side in (databases.source, databases.target) if isinstance(side, TopicTable)]
    if any(topic.refusal for topic in topics):
        found = TableFindings(table, "failed")
    else:
        found = audit_table(table, databases, plan, bounds, lambda: "")
    for topic in topics:
        found = topic.judge(found)
    # It is all that was asked for.
    return replace(found, state="failed") if found.state == "not compared" else found


def _open(at: TableAt, stack: ExitStack) -> AuditedDatabase:
    """Open what the URL names; `stack` closes it."""
    url = _split(at.url)
    if url.scheme == _TOPIC:
        # Imported here as no other URL needs Kafka's client.
        from penstock.wiring.audit_topics import open_topic, parse_topic_url  # noqa: PLC0415

        return open_topic(parse_topic_url(at.url, at.password), stack)
    if url.scheme in {"delta", "parquet"}:
        return _open_files(url, stack)
    return stack.enter_context(closing(_open_database(url, at.password)))


def _open_database(url: SplitResult, given_password: str) -> AuditedDatabase:
    user, password = unquote(url.username or ""), unquote(url.password or "") or given_password
    host = url.hostname or "127.0.0.1"
    database = unquote(url.path.lstrip("/")) or user
    options = dict(parse_qsl(url.query))
    match url.scheme:
        case "mysql" | "mariadb":
            return AuditedMysql(MysqlServer(host, url.port or _MYSQL_PORT, user, password))
        case "postgresql" | "postgres":
            # Imported here as its driver is in an extra.
            from penstock.adapters.postgres.audited import AuditedPostgres  # noqa: PLC0415
            from penstock.adapters.postgres.connection import PostgresServer  # noqa: PLC0415

            return AuditedPostgres(PostgresServer(host, url.port or _POSTGRES_PORT, database, user, password, options))
        case "redshift":
            from penstock.adapters.redshift.audited import AuditedRedshift  # noqa: PLC0415 - as above

            return AuditedRedshift(_cluster(host, url.port or _REDSHIFT_PORT, database, (user, password), options))
        case "duckdb":
            # As elsewhere: three slashes before a relative path, four before an absolute one.
            path = Path(unquote(url.path[1:]))
            return AuditedDuckdb(path, path.with_name(f".{path.name}.no-server"))
        case _:
            message = f"a database {url.scheme}:// cannot be audited"
            raise UsageError(message, f"write {_FORMS}")


def _cluster(
    host: str, port: int, database: str, login: tuple[str, str], options: Mapping[str, str]
) -> RedshiftCluster:
    from penstock.adapters.redshift.connection import RedshiftCluster  # noqa: PLC0415 - its driver is in an extra

    match options.get("sslmode", "verify-full"):
        case "verify-full" | "verify-ca" | "disable" as sslmode:
            return RedshiftCluster(host, port, database, *login, sslmode)
        case other:
            message = f"sslmode={other} is no way to reach a Redshift"
            raise UsageError(message, "write ?sslmode=verify-full, ?sslmode=verify-ca or ?sslmode=disable")


def _open_files(url: SplitResult, stack: ExitStack) -> AuditedDatabase:
    """Open a folder of tables; paths as in duckdb:///."""
    folder = Path(unquote(url.path[1:])).absolute()
    if not folder.is_dir():
        message = f"there is no folder {folder}"
        raise UsageError(message, f"give the folder below which SCHEMA/TABLE is: {url.scheme}:////data/lake")
    store = open_objects(ObjectsSpec(folder.as_uri()))
    copies = stack.enter_context(closing(LocalCopies(store)))
    if url.scheme == "delta":
        opened = AuditedFiles(DELTA, DeltaTables(store, copies.paths).find, copies.folder)
    else:
        opened = AuditedFiles(PARQUET, ParquetTables(store, copies.paths).find, copies.folder)
    return stack.enter_context(closing(opened))


def _split(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        # Of a topic, there may be several brokers.
        _ = url.port if url.scheme != _TOPIC else None
    except ValueError:
        # The parser's own error may quote the URL, which may hold a password.
        message = "the URL of a database is not understood"
        raise UsageError(message, f"write {_FORMS}") from None
    return url


def _find(database: AuditedDatabase, at: TableAt) -> FoundTable:
    if isinstance(database, TopicTable):
        return database.find(at.table)
    if isinstance(database, AuditedFiles):
        return _find_files(database, at.table)
    if not isinstance(database, AuditedMysql):
        return find_table(database, at.table)
    schema = read_tables(database.connection, [at.table]).get(at.table)
    if schema is None:
        message = f"there is no table {at.table} in the {database.dialect.name} server, or the user may not see it"
        raise UsageError(message, "give --table SCHEMA.TABLE, as it is called there")
    return FoundTable(
        database.dialect, database.dialect.quoted(at.table.schema, at.table.name), columns_of(schema), schema.key
    )


def _find_files(database: AuditedFiles, table: TableId) -> FoundTable:
    files = database.look(table)
    if files is None:
        raise no_table(database, table)
    found = find_table(database, table)
    # Queries do not see them, so that no catalog has them.
    nested = [FoundColumn(each.name, None, _NESTED) for each in files.columns or () if each.type is None]
    return replace(found, columns=(*found.columns, *nested))


def _place(at: TableAt) -> str:
    url = _split(at.url)
    if url.scheme == _TOPIC:
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    return f"{url.scheme}://{url.hostname or ''}{f':{url.port}' if url.port else ''}{url.path}"
