"""The same rows in MariaDB, PostgreSQL and DuckDB, for audits to compare."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
from tests.servers.sessions import log_in

from penstock.adapters.duckdb.audited import AuditedDuckdb
from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.postgres.audited import AuditedPostgres
from penstock.adapters.postgres.connection import PostgresServer as PostgresLogin
from penstock.core.audit.side import AuditColumn, AuditSide, Cut
from penstock.links.audit.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.core.audit.dialects import AuditDialect, HashForm, Kind
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql
    from penstock.ports.audited import AuditedDatabase

TARGETS = ("postgres", "duckdb")


@dataclass(slots=True)
class AuditPlace:
    """Three databases, in each a schema `name`. `texts` says where the two targets are, for statements of a test."""

    name: str
    home: Path
    mariadb: MariadbServer | OracleMysql
    postgres: PostgresServer
    stack: ExitStack = field(default_factory=ExitStack)

    def run(self, database: str, *statements: str) -> None:
        """Run statements in one of them; `{t}` is the table `t` of the schema."""
        for statement in statements:
            self._run(database, statement.replace("{t}", f"{self.name}.t"))

    def _run(self, database: str, statement: str) -> None:
        if database == "mariadb":
            with self._mariadb_cursor() as cursor:
                cursor.execute(statement)
        elif database == "postgres":
            with psycopg.connect(self._conninfo(), autocommit=True, connect_timeout=10) as connection:
                connection.execute("SET timezone = 'UTC'")
                connection.execute(statement.encode())
        else:
            with duckdb.connect(str(self.path)) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute(statement)

    def create(self, columns: Mapping[str, str], more: str = "") -> None:
        """Make the schema and the table in each; `columns` are definitions by database."""
        self.run("mariadb", f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.run("mariadb", f"CREATE TABLE {{t}} ({columns['mariadb']}{more})")
        for target in TARGETS:
            self.run(target, f"CREATE SCHEMA {self.name}", f"CREATE TABLE {{t}} ({columns[target]})")

    def database(self, name: str) -> AuditedDatabase:
        """One of the three, as an audit reads it."""
        opened = self.stack.enter_context(closing(self._open(name)))
        opened.renew()
        return opened

    def pair(self, target: str, columns: Sequence[tuple[str, Kind]], cut: Cut, form: HashForm = "sha256") -> Pair:
        """MariaDB against another one; the first column is the key."""
        source, other = self.database("mariadb"), self.database(target)
        sides = [self.side(database.dialect, columns, cut, form) for database in (source, other)]
        return Pair(source, other, sides[0], sides[1])

    def side(self, dialect: AuditDialect, columns: Sequence[tuple[str, Kind]], cut: Cut, form: HashForm) -> AuditSide:
        """The table `t`."""
        compared = tuple(AuditColumn(*column) for column in columns)
        return AuditSide(dialect, dialect.quoted(self.name, "t"), compared, compared[:1], cut, form)

    def url(self, name: str) -> str:
        """Where a database is, without its password."""
        if name == "duckdb":
            return f"duckdb:///{self.path}"
        server = self.mariadb if name == "mariadb" else self.postgres
        path = f"/{self.postgres.database}" if name == "postgres" else ""
        scheme = "mysql" if name == "mariadb" else "postgresql"
        return f"{scheme}://{server.user}@{server.host}:{server.port}{path}"

    def drop(self) -> None:
        """Let go of the databases, and of the schemas."""
        self.stack.close()
        self.run("mariadb", f"DROP DATABASE IF EXISTS {self.name}")
        self.run("postgres", f"DROP SCHEMA IF EXISTS {self.name} CASCADE")

    @property
    def path(self) -> Path:
        """DuckDB's file."""
        return self.home / "audited.duckdb"

    def _open(self, name: str) -> AuditedDatabase:
        if name == "mariadb":
            server = self.mariadb
            return AuditedMysql(MysqlServer(server.host, server.port, server.user, server.password))
        if name == "postgres":
            login = self.postgres
            return AuditedPostgres(
                PostgresLogin(login.host, login.port, login.database, login.user, login.password, {})
            )
        return AuditedDuckdb(self.path, self.home / "nobody.json")

    def _mariadb_cursor(self) -> Any:  # noqa: ANN401 - pymysql's cursors have no common public type
        server = self.mariadb
        connection = self.stack.enter_context(closing(log_in(server, init_command="SET time_zone = '+00:00'")))
        return connection.cursor()

    def _conninfo(self) -> str:
        login = self.postgres
        return (
            f"host={login.host} port={login.port} dbname={login.database} user={login.user} password={login.password}"
        )
