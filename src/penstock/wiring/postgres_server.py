"""Where a PostgreSQL source is, and how we log in to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.preflight import LogAccess
from penstock.adapters.postgres.source.publication import Publication
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.config.secrets import secret
from penstock.wiring.sink_kinds.postgres import libpq_tls

if TYPE_CHECKING:
    from penstock.config.specs import SourceSpec


def postgres_source(source: SourceSpec) -> PostgresSourceSpec:
    """Return the spec of a source that is PostgreSQL's."""
    if not isinstance(source, PostgresSourceSpec):
        message = f"{source.name} is no PostgreSQL source"
        raise TypeError(message)
    return source


def source_server(source: SourceSpec) -> PostgresServer:
    """The source's database and our login to it."""
    spec = postgres_source(source)
    tls = {} if spec.tls is None else libpq_tls(spec.tls)
    return PostgresServer(spec.host, spec.port, spec.database, spec.user, secret(spec.password_env), tls)


def source_publication(source: SourceSpec) -> Publication:
    """The publication that is read, as the source wants it."""
    spec = postgres_source(source)
    return Publication(spec.publication_name, spec.partitions)


def log_access(source: SourceSpec) -> LogAccess:
    """How the source's log is read."""
    spec = postgres_source(source)
    server, publication = source_server(source), source_publication(spec)
    return LogAccess(server, spec.slot_name, publication, spec.failover, spec.ddl_trigger)
