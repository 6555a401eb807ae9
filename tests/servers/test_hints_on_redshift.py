"""Hints of Redshift are true: a table that it stops goes on when its hint is followed, with all of its rows."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.redshift_case import log_in, run, target
from tests.servers.test_hints import Refused, follow_hints

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.sink_case import Place

    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

LONG = "é" * 64
REFUSED = {
    "dropped": Refused(
        "CREATE TABLE dropped (id INT PRIMARY KEY, n INT)",
        "DROP TABLE dropped",
        ("INSERT INTO dropped VALUES (2, 2)",),
        "type: penstock snapshot FILE TABLE --full-refresh",
        is_read_again=True,
    ),
    "lacking": Refused(
        "CREATE TABLE lacking (id INT PRIMARY KEY, n INT)",
        "ALTER TABLE lacking DROP COLUMN n",
        ("INSERT INTO lacking VALUES (2, 2)",),
        "put it back as it was, with the values that it had",
        "ALTER TABLE lacking ADD COLUMN n INTEGER",
    ),
    "not_ours": Refused(
        "",
        "CREATE TABLE not_ours (id INTEGER, theirs VARCHAR(10))",
        ("CREATE TABLE not_ours (id INT PRIMARY KEY, n INT)", "INSERT INTO not_ours VALUES (1, 1), (2, 2)"),
        "drop or rename that table",
        "ALTER TABLE not_ours RENAME TO theirs",
    ),
    "too_long": Refused(
        "CREATE TABLE too_long (id INT PRIMARY KEY, t MEDIUMTEXT)",
        "",
        ("INSERT INTO too_long VALUES (2, repeat('x', 70000))",),
        "correct the value in the source",
        mended=("UPDATE too_long SET t = 'x' WHERE id = 2",),
        is_read_again=True,
    ),
    "long_name": Refused(
        "",
        "",
        (f"CREATE TABLE long_name (id INT PRIMARY KEY, {LONG} INT)", "INSERT INTO long_name VALUES (1, 1), (2, 2)"),
        "give it a shorter name in the source",
        mended=(f"ALTER TABLE long_name RENAME COLUMN {LONG} TO c",),
        is_read_again=True,
    ),
    "viewed": Refused(
        "CREATE TABLE viewed (id INT PRIMARY KEY, n INT)",
        "CREATE VIEW views AS SELECT n FROM viewed",
        ("ALTER TABLE viewed MODIFY n BIGINT", "INSERT INTO viewed VALUES (2, 2)"),
        "drop these, and make them again when the table has gone on",
        "DROP VIEW views",
    ),
}


@pytest.fixture
def objects(redshift_place: Place, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where files go that the cluster reads, as a pipeline's file has it; who may is in the environment."""
    access = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    for name, value in {**access, "SINK_PASSWORD": target(redshift_place).cluster.password}.items():
        monkeypatch.setenv(name, value)
    store = f"url: '{target(redshift_place).store_url}', endpoint: '{s3.endpoint}', region: {s3.region}"
    return f"objects: {{{store}, format: csv, compression: gzip}}"


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
    redshift_place: Place,
    objects: str,
) -> Chain:
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts, objects)
    cluster, role = target(redshift_place).cluster, target(redshift_place).rights.iam_role
    login = f"host: {cluster.host}, port: {cluster.port}, database: {cluster.database}, user: {cluster.user}"
    sink = f"kind: redshift, {login}, password_env: SINK_PASSWORD, sslmode: disable, iam_role: '{role}'"
    text = made.file.read_text().replace(f"kind: duckdb, path: {tmp_path / fresh_database}/wh.duckdb", sink)
    made.file.write_text(text)
    return made


@pytest.mark.nightly
def test_tables_that_redshift_stops_go_on_when_their_hints_are_followed(
    chain: Chain, redshift: RedshiftServer, redshift_place: Place
) -> None:
    database = target(redshift_place).cluster.database
    with closing(log_in(redshift, dbname=database)) as connection:
        run(connection, f"SET search_path TO {chain.name}")
        follow_hints(chain, REFUSED, partial(run, connection))
