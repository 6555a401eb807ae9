"""A source that has let go of its snapshot keeps nobody from altering a table that it has read."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_source_case import source_database
from tests.servers.sessions import log_in
from tests.servers.source_log import address

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.postgres.source.audited import AuditedPostgresSource
from penstock.adapters.postgres.source.publication import Publication

if TYPE_CHECKING:
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

COUNT = "SELECT COUNT(*) FROM {}"
ALTER = "ALTER TABLE t ADD COLUMN more INT"


@pytest.mark.parametrize(
    "any_source", ["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)], indirect=True
)
def test_a_table_of_mysql_is_altered_once_its_snapshot_is_let_go_of(
    any_source: MariadbServer | OracleMysql, database: str
) -> None:
    with (
        closing(log_in(any_source, database)) as connection,
        connection.cursor() as cursor,
        closing(AuditedMysql(address(any_source))) as audited,
    ):
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute("SET lock_wait_timeout = 3")
        audited.renew()
        audited.fetch(COUNT.format(f"{database}.t"))

        audited.release()
        cursor.execute(ALTER)

        audited.renew()
        assert list(audited.fetch(COUNT.format(f"{database}.t"))) == [(0,)]


def test_a_table_of_postgres_is_altered_once_its_snapshot_is_let_go_of(
    postgres: PostgresServer, fresh_name: str
) -> None:
    with source_database(postgres, fresh_name) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY)", "SET lock_timeout = '3s'")
        source.publish()
        with closing(AuditedPostgresSource(source.login, Publication(source.name), "stop")) as audited:
            audited.fetch(COUNT.format("public.t"))

            audited.release()
            source.execute(ALTER)

            audited.renew()
            assert list(audited.fetch(COUNT.format("public.t"))) == [(0,)]
