"""A table registered by its CREATE TABLE is the table that capture registers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.servers.sessions import log_in

from penstock.adapters.mysql.catalog import read_tables
from penstock.core.tables import TableId
from penstock.schematizer.statements.create_table import parse_create_table

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer

COLUMNS = """
    id bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'it''s ours',
    tiny tinyint(1) NOT NULL DEFAULT 1,
    medium mediumint unsigned,
    price decimal(10,2) NOT NULL DEFAULT 0.50,
    ratio double DEFAULT 1.5,
    f float,
    code char(3) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'abc',
    name varchar(64) DEFAULT NULL,
    body longtext,
    raw varbinary(16),
    fixed binary(4),
    photo blob,
    born date DEFAULT '2020-01-02',
    at datetime(3) DEFAULT current_timestamp(3),
    seen timestamp(6) NULL,
    y year,
    kind enum('a','it''s','x y') NOT NULL DEFAULT 'a',
    total decimal(12,2) GENERATED ALWAYS AS (price * 2) STORED,
    PRIMARY KEY (code, id), UNIQUE KEY (id), KEY k (name(10))
"""


def test_a_statement_that_the_server_prints_is_read_as_the_server_describes_it(
    mariadb: MariadbServer, fresh_database: str
) -> None:
    table = TableId(fresh_database, "everything")
    with contextlib.closing(log_in(mariadb)) as connection:
        with connection.cursor() as cursor:
            options = "DEFAULT CHARSET=utf8mb4 COMMENT='every type'"
            cursor.execute(f"CREATE TABLE {fresh_database}.everything ({COLUMNS}) {options}")
            cursor.execute(f"SHOW CREATE TABLE {fresh_database}.everything")
            ((_, printed),) = cursor.fetchall()
        described = read_tables(connection, [table])[table]

    parsed = parse_create_table(printed.replace("CREATE TABLE `", f"CREATE TABLE `{fresh_database}`.`", 1))

    assert parsed.key == described.key
    assert parsed.comment == described.comment
    for ours, theirs in zip(parsed.columns, described.columns, strict=True):
        if "GENERATED" in theirs.declaration:
            assert (ours.name, ours.type) == (theirs.name, theirs.type)
        else:
            assert ours == theirs
