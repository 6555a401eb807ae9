"""The stand-in takes Redshift's SQL and refuses what Redshift refuses.

Each rule names its page of the Amazon Redshift Database Developer Guide.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.servers.redshift_case import log_in, run

from penstock.dev.redshift.control import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.redshift import RedshiftServer

_TABLE = """
    CREATE TABLE %s (id INT PRIMARY KEY DISTKEY, name VARCHAR(5) ENCODE zstd, note VARCHAR(10) DEFAULT 'x',
    kept VARCHAR(5) ENCODE bytedict, made TIMESTAMP, doc SUPER, UNIQUE (name, made)) COMPOUND SORTKEY (made, id)
"""


@pytest.fixture
def connection(redshift: RedshiftServer, fresh_name: str) -> Iterator[psycopg.Connection]:
    """Connected, with a schema of its own in which the table `t` is."""
    with log_in(redshift) as connection:
        run(connection, f"CREATE SCHEMA {fresh_name}", f"SET search_path TO {fresh_name}", _TABLE % "t")
        yield connection


_ELSE = "WHEN NOT MATCHED THEN INSERT (id) VALUES (t2.id)"
_NINE = ", ".join(f"c{number}" for number in range(9))
_REFUSED = [
    # page, statement, error
    ("CREATE TABLE", "CREATE TABLE x (a INT, b INT) DISTSTYLE ALL DISTKEY (a)", "DISTKEY cannot be specified"),
    ("CREATE TABLE", "CREATE TABLE x (a INT DISTKEY, b INT DISTKEY)", "multiple DISTKEY"),
    ("CREATE TABLE", "CREATE TABLE x (a INT ENCODE fast)", 'invalid encoding type "fast"'),
    (
        "CREATE TABLE",
        f"CREATE TABLE x ({_NINE.replace(',', ' INT,')} INT) INTERLEAVED SORTKEY ({_NINE})",
        "cannot have more than 8",
    ),
    ("Unsupported PostgreSQL features", "CREATE TABLE x (a INT CHECK (a > 0))", "syntax error"),
    ("Unsupported PostgreSQL features", "CREATE INDEX i ON t (id)", "not supported"),
    ("Unsupported PostgreSQL features", "SAVEPOINT s", "not supported"),
    ("Unsupported PostgreSQL features", "INSERT INTO t (id) VALUES (1) ON CONFLICT DO NOTHING", "CONFLICT"),
    ("Unsupported PostgreSQL features", "INSERT INTO t (id) VALUES (1) RETURNING id", "RETURNING"),
    ("Unsupported PostgreSQL features", "SELECT DISTINCT ON (id) * FROM t", "DISTINCT ON"),
    ("Unsupported PostgreSQL data types", "CREATE TABLE x (a JSONB)", 'unsupported type "jsonb"'),
    ("Unsupported PostgreSQL data types", "CREATE TABLE x (a UUID)", 'unsupported type "uuid"'),
    ("Unsupported PostgreSQL data types", "CREATE TABLE x (a SERIAL)", 'unsupported type "serial"'),
    ("Unsupported PostgreSQL data types", "CREATE TABLE x (a INT[])", "unsupported type"),
    ("Character types", "CREATE TABLE x (a VARCHAR(65536))", "cannot exceed 65535"),
    ("Character types", "CREATE TABLE x (a CHAR(4097))", "cannot exceed 4096"),
    (
        "Character types",
        "INSERT INTO t (id, name) VALUES (1, 'ééé')",
        r"value too long for type character varying\(5\)",
    ),
    ("Numeric types", "CREATE TABLE x (a NUMERIC(39,0))", "precision 39 must be between 1 and 38"),
    ("VARBYTE type", "CREATE TABLE x (a VARBYTE(16777217))", "cannot exceed"),
    ("Reserved words", "CREATE TABLE x (tag INT)", 'syntax error at or near "tag"'),
    ("Reserved words", "CREATE TABLE x (system INT)", 'syntax error at or near "system"'),
    ("ALTER TABLE", "ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT", 'syntax error at or near ","'),
    ("ALTER TABLE", "ALTER TABLE t DROP COLUMN name, DROP COLUMN note", "syntax error"),
    ("ALTER TABLE", "ALTER TABLE t ADD COLUMN a INT NOT NULL", "must have a non-null default"),
    ("ALTER TABLE", "ALTER TABLE t DROP COLUMN id", "cannot drop distkey column"),
    ("ALTER TABLE", "ALTER TABLE t DROP COLUMN made", "cannot drop sortkey column"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN id TYPE BIGINT", "cannot alter type of column"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN doc TYPE VARCHAR(10)", "cannot alter type of column"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN note TYPE VARCHAR(20)", "has a default value"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN kept TYPE VARCHAR(20)", "encoding is bytedict"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN name TYPE VARCHAR(20)", "part of a PRIMARY KEY or UNIQUE"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN name SET NOT NULL", "syntax error"),
    ("MERGE", f"MERGE INTO t USING (SELECT 1 AS id) t2 ON t.id = t2.id WHEN MATCHED THEN DELETE {_ELSE}", "subquery"),
    ("MERGE", "MERGE INTO t USING t2 ON t.id = t2.id WHEN MATCHED THEN DELETE", "one WHEN MATCHED"),
    (
        "MERGE",
        f"MERGE INTO t USING t2 ON t.id = t2.id WHEN MATCHED AND t.id > 1 THEN DELETE {_ELSE}",
        "one WHEN MATCHED",
    ),
    ("LOCK", "LOCK TABLE t IN SHARE MODE", "syntax error"),
    ("COPY", "COPY t FROM STDIN", "not supported"),
]


@pytest.mark.parametrize(("page", "statement", "error"), _REFUSED)
def test_what_redshift_refuses_is_refused(
    connection: psycopg.Connection, page: str, statement: str, error: str
) -> None:
    with pytest.raises(psycopg.Error, match=error):
        run(connection, statement)

    assert page
    assert run(connection, "SELECT count(*) FROM t") == [(0,)]


_NEVER_IN_A_BLOCK = [
    ("VACUUM", "VACUUM t"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN name TYPE VARCHAR(20)"),
    ("ALTER TABLE", "ALTER TABLE t ALTER COLUMN name ENCODE lzo"),
    ("ALTER TABLE APPEND", "ALTER TABLE t APPEND FROM t2"),
    ("CREATE DATABASE", "CREATE DATABASE never"),
    ("DROP DATABASE", "DROP DATABASE never"),
]


@pytest.mark.parametrize(("page", "statement"), _NEVER_IN_A_BLOCK)
def test_some_statements_never_run_inside_a_transaction(
    connection: psycopg.Connection, page: str, statement: str
) -> None:
    run(connection, "BEGIN")

    with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="cannot run inside a transaction block"):
        run(connection, statement)

    assert page
    run(connection, "ROLLBACK")


def test_keys_are_noted_and_not_enforced(connection: psycopg.Connection) -> None:
    # "Table constraints"; "SVV_TABLE_INFO"; "PG_TABLE_DEF"
    run(connection, "INSERT INTO t (id) VALUES (1), (1)")

    info = "SELECT diststyle, sortkey1, sortkey_num FROM svv_table_info WHERE schema = current_schema()"
    assert run(connection, info) == [("KEY(id)", "made", 2)]
    columns = 'SELECT "column", type, encoding, distkey, sortkey, "notnull" FROM pg_table_def WHERE schemaname = '
    assert run(connection, f"{columns} current_schema() ORDER BY 1")[:3] == [
        ("doc", "super", "none", False, 0, False),
        ("id", "integer", "none", True, 2, True),
        ("kept", "character varying(5)", "bytedict", False, 0, False),
    ]
    with pytest.raises(psycopg.errors.NotNullViolation):
        run(connection, "INSERT INTO t (name) VALUES ('a')")


def test_a_varchar_is_widened_and_narrowed_as_far_as_its_values_allow(connection: psycopg.Connection) -> None:
    # "ALTER TABLE"
    run(connection, "CREATE TABLE w (a VARCHAR(5))", "INSERT INTO w VALUES ('éé')")

    run(connection, "ALTER TABLE w ALTER COLUMN a TYPE VARCHAR(8)", "INSERT INTO w VALUES ('éééé')")
    with pytest.raises(psycopg.Error, match="holds values of up to 8 bytes"):
        run(connection, "ALTER TABLE w ALTER COLUMN a TYPE VARCHAR(7)")
    with pytest.raises(psycopg.Error, match="target column size should be different"):
        run(connection, "ALTER TABLE w ALTER COLUMN a TYPE VARCHAR(8)")
    with pytest.raises(psycopg.errors.StringDataRightTruncation, match=r"character varying\(8\)"):
        run(connection, "INSERT INTO w VALUES ('éééée')")


def test_one_column_is_added_renamed_and_dropped(connection: psycopg.Connection) -> None:
    # "ALTER TABLE"
    run(connection, "ALTER TABLE t ADD COLUMN extra VARCHAR(3) DEFAULT 'abc' ENCODE lzo NOT NULL")
    run(connection, "INSERT INTO t (id) VALUES (1)", "ALTER TABLE t RENAME COLUMN extra TO more")

    assert run(connection, "SELECT more FROM t") == [("abc",)]
    definition = "SELECT encoding FROM pg_table_def WHERE \"column\" = 'more' AND schemaname = current_schema()"
    assert run(connection, definition) == [("lzo",)]
    run(connection, "ALTER TABLE t DROP COLUMN more")


def test_a_temporary_table_like_another_has_its_limits_and_keys(connection: psycopg.Connection) -> None:
    # "CREATE TABLE": LIKE
    run(connection, "CREATE TEMP TABLE staged (LIKE t)", "ALTER TABLE staged ADD COLUMN place BIGINT")

    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        run(connection, "INSERT INTO staged (id, name) VALUES (1, 'ééé')")
    assert run(connection, "SELECT diststyle FROM svv_table_info WHERE \"table\" = 'staged'") == [("KEY(id)",)]
    run(connection, "INSERT INTO t (id) VALUES (1), (2)", "INSERT INTO staged (id) VALUES (1)")
    run(connection, "DELETE FROM t USING staged WHERE t.id = staged.id")
    assert run(connection, "SELECT id FROM t") == [(2,)]


def test_merge_updates_and_inserts_once(connection: psycopg.Connection) -> None:
    # "MERGE"
    run(connection, "CREATE TABLE s (id INT, name VARCHAR(5))", "INSERT INTO t (id, name) VALUES (1, 'old')")
    run(connection, "INSERT INTO s VALUES (1, 'new'), (2, 'two')")
    merge = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    run(connection, merge)

    assert run(connection, "SELECT id, name FROM t ORDER BY id") == [(1, "new"), (2, "two")]
    run(connection, "INSERT INTO s VALUES (1, 'again')")
    with pytest.raises(psycopg.Error):
        run(connection, merge)


def test_truncate_commits(connection: psycopg.Connection) -> None:
    # "TRUNCATE": it commits the transaction in which it runs
    run(connection, "BEGIN", "INSERT INTO t (id) VALUES (1)", "CREATE TABLE emptied (a INT)", "TRUNCATE t")

    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert run(connection, "SELECT count(*) FROM t") == [(0,)]
    assert run(connection, "SELECT count(*) FROM emptied") == [(0,)]


def test_append_moves_rows(connection: psycopg.Connection) -> None:
    # "ALTER TABLE APPEND"
    run(connection, "CREATE TABLE t2 (LIKE t)", "INSERT INTO t2 (id) VALUES (7)", "ALTER TABLE t APPEND FROM t2")

    assert run(connection, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM t2)") == [(1, 0)]
    run(connection, "CREATE TABLE t3 (id BIGINT)")
    with pytest.raises(psycopg.Error, match="do not match"):
        run(connection, "ALTER TABLE t APPEND FROM t3")


def test_names_are_folded_and_may_be_127_bytes_long(connection: psycopg.Connection) -> None:
    # "Names and identifiers"
    long = "n" * 127
    run(connection, 'CREATE TABLE "MixedCase" ("Tag" INT)', 'INSERT INTO mixedcase ("TAG") VALUES (1)')
    run(connection, f"CREATE TABLE {long} (a INT)", f"CREATE TABLE {long[:-1]}m (b INT)")

    assert run(connection, 'SELECT "tag" FROM MIXEDCASE') == [(1,)]
    assert run(connection, f"SELECT a FROM {long}x") == []
    assert run(connection, f"SELECT b FROM {long[:-1]}m") == []


def test_an_owner_is_told_in_redshifts_words(connection: psycopg.Connection, redshift: RedshiftServer) -> None:
    # "ALTER TABLE", required privileges
    schema = run(connection, "SELECT current_schema()")[0][0]
    run(connection, f"CREATE USER {schema}_u PASSWORD 'Secret123'", f"GRANT USAGE ON SCHEMA {schema} TO {schema}_u")

    with log_in(redshift, user=f"{schema}_u", password="Secret123") as other:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of relation t"):
            run(other, f"ALTER TABLE {schema}.t ADD COLUMN a INT")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(other, f"INSERT INTO {schema}.t (id) VALUES (1)")


def test_transactions_that_cannot_be_put_in_order_get_error_1023(redshift: RedshiftServer, fresh_name: str) -> None:
    # "Isolation levels in Amazon Redshift", "Troubleshooting serializable isolation errors"
    with log_in(redshift) as owner:
        run(owner, f"CREATE DATABASE {fresh_name} ISOLATION LEVEL SERIALIZABLE")
    with (
        log_in(redshift, dbname=fresh_name) as one,
        log_in(redshift, dbname=fresh_name) as other,
    ):
        run(one, "CREATE TABLE tab1 (a INT)", "CREATE TABLE tab2 (a INT)", "BEGIN", "SELECT * FROM tab1")
        run(other, "BEGIN", "SELECT * FROM tab2")
        run(one, "INSERT INTO tab2 VALUES (1)", "COMMIT")

        with pytest.raises(psycopg.InternalError, match="1023") as raised:
            run(other, "INSERT INTO tab1 VALUES (1)", "COMMIT")

        assert "Serializable isolation violation on table" in str(raised.value.diag.message_detail)


def test_two_writers_of_one_table_wait_for_each_other(connection: psycopg.Connection, redshift: RedshiftServer) -> None:
    # "Write and read/write operations"
    schema = run(connection, "SELECT current_schema()")[0][0]
    run(connection, "BEGIN", "INSERT INTO t (id) VALUES (1)")
    done = threading.Event()

    def write() -> None:
        with log_in(redshift) as other:
            run(other, "BEGIN", f"INSERT INTO {schema}.t (id) VALUES (2)", "COMMIT")
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    waited = not done.wait(0.5)
    run(connection, "COMMIT")
    writer.join(30)

    assert waited
    assert done.is_set()


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("read_only", "read-only"),
        ("disk_full", "Disk Full"),
        ("query_killed", "cancelled on user's request"),
        ("queue_timeout", "cancelled by WLM"),
        ("timeout", "statement timeout"),
        ("isolation", "1023"),
        ("cut", "terminating connection"),
        ("paused", "the cluster is paused"),
    ],
)
def test_bad_states_come_and_go(redshift: RedshiftServer, fresh_name: str, state: str, error: str) -> None:
    with log_in(redshift) as connection:
        run(connection, f"CREATE TABLE {fresh_name} (a INT)")
        redshift.fault(Fault(state, times=1))

        with pytest.raises(psycopg.Error, match=error):
            run(connection, f"INSERT INTO {fresh_name} VALUES (1)")

    with log_in(redshift) as connection:
        run(connection, f"INSERT INTO {fresh_name} VALUES (2)")
        assert run(connection, f"SELECT * FROM {fresh_name}") == [(2,)]


def test_a_paused_cluster_takes_nobody_in(redshift: RedshiftServer) -> None:
    redshift.fault(Fault("paused"))
    try:
        with pytest.raises(psycopg.OperationalError, match="paused"):
            log_in(redshift)
    finally:
        redshift.fault(None)

    log_in(redshift).close()


def test_a_bad_state_is_set_by_a_statement_too(connection: psycopg.Connection) -> None:
    run(connection, """SET standin.fault TO '{"state": "disk_full", "statement": "INSERT INTO t", "times": 1}'""")

    with pytest.raises(psycopg.errors.DiskFull) as raised:
        run(connection, "INSERT INTO t (id) VALUES (1)")

    assert "1016" in str(raised.value.diag.message_detail)
    run(connection, "INSERT INTO t (id) VALUES (1)")
    with pytest.raises(psycopg.Error, match="does not know the state"):
        run(connection, "SET standin.fault TO 'melting'")


def test_what_nobody_knows_says_so(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as raised:
        run(connection, "SELECT no_such_function(1)")

    assert "the stand-in does not know" in str(raised.value.diag.message_hint)


def test_statistics_are_stale_until_analyze(connection: psycopg.Connection) -> None:
    # "SVV_TABLE_INFO", stats_off; "ANALYZE"
    run(connection, "INSERT INTO t (id) VALUES (1)", "ANALYZE t (id) ", "ANALYZE t PREDICATE COLUMNS", "VACUUM FULL t")

    assert run(connection, "SELECT stats_off >= 0 FROM svv_table_info WHERE schema = current_schema()") == [(True,)]


def test_late_binding_views_find_their_tables_when_they_are_read(
    connection: psycopg.Connection, fresh_name: str
) -> None:
    # "CREATE VIEW", WITH NO SCHEMA BINDING; "PG_VIEWS"
    view = f"CREATE VIEW public.{fresh_name} (k, v) AS SELECT id, w.name FROM {fresh_name}.w WITH NO SCHEMA BINDING"
    run(connection, view)
    with pytest.raises(psycopg.errors.UndefinedTable, match="w"):
        run(connection, f"SELECT * FROM public.{fresh_name}")

    for kind in ("VARCHAR(5)", "INT"):
        run(
            connection,
            f"CREATE TABLE {fresh_name}.w (id INT, name {kind})",
            f"INSERT INTO {fresh_name}.w VALUES (1, 2)",
        )
        found = run(connection, f'SELECT v::text, o.k FROM t RIGHT JOIN public."{fresh_name}" o ON t.id = o.k')
        with pytest.raises(psycopg.errors.DuplicateTable):
            run(connection, view)
        assert found == [("2", 1)]
        run(connection, f"DROP TABLE {fresh_name}.w")
    again = f"CREATE OR REPLACE VIEW public.{fresh_name} AS SELECT 'it''s \\\\' AS x WITH NO SCHEMA BINDING"
    run(connection, again)

    assert run(connection, f"SELECT x FROM public.{fresh_name}") == [("it's \\",)]
    told = run(connection, f"SELECT definition, schemaname FROM pg_views WHERE viewname = '{fresh_name}'")
    assert told == [(f"{again};", "public")]
    run(connection, f"DROP VIEW public.{fresh_name}")
