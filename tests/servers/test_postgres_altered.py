"""Tables that are altered while nobody looks: what their older rows have, by the log and the catalog, and by triggers.

The log is read when all of it is over: the catalog is newer than each of its places.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from tests.servers.followed_postgres import FollowedPostgres
from tests.servers.postgres_source_case import SourceDatabase, source_database

from penstock.adapters.postgres.source.catalog import read_tables
from penstock.adapters.postgres.source.ddl_trigger import ensure_ddl_trigger
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.adapters.postgres.source.stream import WalStream
    from penstock.dev.postgres import PostgresServer

_MADE: Final = ("CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')")
_PARTITIONED: Final = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
    "INSERT INTO t VALUES (1, 'a', 'b'), (11, 'a', 'b')",
)
_COMPUTED: Final = "the source computed"


@pytest.fixture
def watched(postgres: PostgresServer, fresh_name: str) -> Iterator[tuple[SourceDatabase, WalStream]]:
    """A database with the triggers, and the end of its log."""
    with source_database(postgres, fresh_name) as source:
        source.connection.prepare_threshold = None
        source.execute("CREATE DOMAIN chance AS float8 DEFAULT random()")
        source.publish()
        ensure_ddl_trigger(source.connection, source.name)
        with source.copy() as copy:
            position = copy.position
        with closing(source.stream(position)) as stream:
            yield source, stream


def _followed(
    watched: tuple[SourceDatabase, WalStream],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statements: Sequence[str],
    *,
    reads_ddl_log: bool,
    made: Sequence[str] = _MADE,
) -> FollowedPostgres:
    """Read a table as it was made, and then all that the statements did."""
    source, stream = watched
    log = FollowedPostgres.open(source, stream, tmp_path, monkeypatch, reads_ddl_log=reads_ddl_log)
    source.execute(*made)
    log.follow()
    source.execute(*statements)
    log.follow()
    return log


@pytest.mark.parametrize("reads_ddl_log", [False, True])
def test_older_rows_have_what_came_with_a_column_of_a_table_that_has_another_name_too(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reads_ddl_log: bool
) -> None:
    statements = ("ALTER TABLE t RENAME TO u", "ALTER TABLE u ADD c int DEFAULT 5", "INSERT INTO u VALUES (2, 'x')")

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=reads_ddl_log)) as log:
        assert log.stopped == {}
        log.check()


@pytest.mark.parametrize("reads_ddl_log", [False, True])
def test_older_rows_of_a_partitioned_table_have_what_came_with_a_column(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reads_ddl_log: bool
) -> None:
    statements = [
        "ALTER TABLE t ADD c int NOT NULL DEFAULT 5, ADD d text DEFAULT 'd', ADD e int DEFAULT 7",
        "ALTER TABLE t ALTER c DROP DEFAULT, ALTER d DROP DEFAULT",
        "INSERT INTO t (id, c) VALUES (2, 6)",
    ]

    log = _followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=reads_ddl_log, made=_PARTITIONED)
    with closing(log):
        assert log.stopped == {}
        log.check()


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ADD c int DEFAULT 5", "VACUUM FULL low", "ALTER TABLE t ALTER c DROP DEFAULT"],
        ["ALTER TABLE t ADD c float8 DEFAULT random()"],
    ],
)
def test_a_partitioned_table_stops_unless_all_partitions_have_kept_what_older_rows_got(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    statements = [*statements, "INSERT INTO t (id, c) VALUES (2, 6)"]

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=False, made=_PARTITIONED)) as log:
        assert _COMPUTED in log.stopped["public.t"].error


@pytest.mark.parametrize("reads_ddl_log", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ADD c chance"],
        # Nobody wrote down what came before.
        [
            "ALTER EVENT TRIGGER penstock_ddl DISABLE",
            "ALTER TABLE t ADD c int NOT NULL DEFAULT 5",
            "ALTER TABLE t ALTER c DROP DEFAULT",
            "VACUUM FULL t",
            "ALTER EVENT TRIGGER penstock_ddl ENABLE",
            "ALTER TABLE t ADD d int",
            "ALTER TABLE t ALTER c SET DEFAULT 6",
        ],
        ["ALTER TABLE t RENAME TO u", "ALTER TABLE u ADD c float8 DEFAULT random()"],
    ],
)
def test_a_table_whose_older_rows_got_computed_values_stops(
    watched: tuple[SourceDatabase, WalStream],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statements: list[str],
    *,
    reads_ddl_log: bool,
) -> None:
    name = "u" if "RENAME" in statements[0] else "t"
    statements = [*statements, f"INSERT INTO {name} (id) VALUES (2)"]

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=reads_ddl_log)) as log:
        # What triggers wrote down renames it first; the log alone shows both at once, under the name that it has now.
        old = set() if reads_ddl_log else {"public.t"}
        assert log.stopped.keys() == {f"public.{name}"} | old
        assert _COMPUTED in log.stopped[f"public.{name}"].error


@pytest.mark.parametrize(
    "statements",
    [
        # Written anew, a table does not say any more what its older rows got.
        ["ALTER TABLE t ADD c text NOT NULL DEFAULT 'it''s'", "ALTER TABLE t ALTER a TYPE varchar"],
        ["ALTER TABLE t ADD c timestamptz DEFAULT '2020-01-02 03:04+02', ADD d bytea, ALTER a TYPE varchar"],
        ["ALTER TABLE t ADD c int DEFAULT 5", "ALTER TABLE t ALTER c SET DEFAULT 6", "VACUUM FULL t"],
        ["ALTER TABLE t ADD c int", "ALTER TABLE t ALTER c SET DEFAULT 6"],
        ["TRUNCATE t", "ALTER TABLE t ADD c int NOT NULL", "ALTER TABLE t ALTER c SET DEFAULT 6"],
        # Nobody needs the key before the next row.
        ["ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD PRIMARY KEY (id), ADD c int DEFAULT 5"],
        ["ALTER TABLE t RENAME id TO number", "ALTER TABLE t ADD c int DEFAULT 5", "ALTER TABLE t RENAME number TO id"],
        # Of names that were exchanged the log alone does not tell.
        ["ALTER TABLE t RENAME a TO x", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME x TO b"],
        ["ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME a TO x", "ALTER TABLE u RENAME TO t"],
        [
            "SET timezone = 'Asia/Tokyo'",
            "ALTER TABLE t ADD c timestamptz NOT NULL DEFAULT '2020-01-02 03:04'",
            "RESET timezone",
        ],
    ],
)
def test_what_became_of_a_table_is_known_where_triggers_wrote_it_down(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=True)) as log:
        assert log.stopped == {}
        # No row came behind it.
        log.check()

        log.source.execute("INSERT INTO t VALUES (2, 'x', 'y')", "UPDATE t SET b = 'z' WHERE id = 1")
        log.follow()

        assert log.stopped == {}
        log.check()


@pytest.mark.parametrize("reads_ddl_log", [False, True])
def test_a_column_that_has_another_name_by_now_is_none_that_has_its_name(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reads_ddl_log: bool
) -> None:
    statements = [
        "ALTER TABLE t ADD c int DEFAULT 5",
        "INSERT INTO t (id) VALUES (2)",
        "ALTER TABLE t RENAME c TO d",
        "ALTER TABLE t ADD c int DEFAULT 7",
        "INSERT INTO t (id) VALUES (3)",
    ]

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=reads_ddl_log)) as log:
        assert log.stopped == {}
        log.check()


@pytest.mark.parametrize(
    ("later", "stopped"),
    [
        (["ALTER TABLE t DROP c", "ALTER TABLE t ADD c int DEFAULT 9"], ["public.t"]),
        # What was dropped before the row came is no matter, nor what is altered since.
        (["ALTER TABLE t ALTER c SET STATISTICS 9"], []),
    ],
)
def test_a_column_that_was_dropped_and_added_again_since_stops_its_table(
    watched: tuple[SourceDatabase, WalStream],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: list[str],
    stopped: list[str],
) -> None:
    statements = ["ALTER TABLE t DROP a", "ALTER TABLE t ADD c int", "UPDATE t SET c = 1", *later]
    statements.append("INSERT INTO t (id) VALUES (3)")

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=False)) as log:
        assert sorted(log.stopped) == stopped
        log.check()


def test_a_table_that_was_unlogged_stops_and_so_does_one_that_was_made_so(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = [
        "ALTER TABLE t SET UNLOGGED",
        "INSERT INTO t VALUES (2, 'a', 'b')",
        "ALTER TABLE t SET LOGGED",
        "INSERT INTO t VALUES (3, 'a', 'b')",
        "CREATE UNLOGGED TABLE made (id int PRIMARY KEY)",
        "INSERT INTO made VALUES (1)",
        "ALTER TABLE made SET LOGGED",
        "INSERT INTO made VALUES (2)",
    ]

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=True)) as log:
        assert "UNLOGGED" in log.stopped["public.t"].error
        assert "it had older ones that were not carried" in log.stopped["public.made"].error


@pytest.mark.parametrize(
    "later",
    [
        ["ALTER TABLE {t} DROP c", "ALTER TABLE {t} ADD x int DEFAULT 7"],
        pytest.param(
            ["ALTER TABLE {t} ADD x int DEFAULT 7", "ALTER TABLE {t} DROP c", "ALTER TABLE {t} RENAME d TO c"],
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            ["ALTER TABLE {t} RENAME d TO e", "ALTER TABLE {t} ADD x int DEFAULT 7", "ALTER TABLE {t} DROP c"],
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_column_that_was_dropped_since_is_none_that_was_added_since(
    make_postgres: Callable[..., PostgresChain], later: Sequence[str]
) -> None:
    chain = make_postgres("CREATE TABLE old (id int PRIMARY KEY)")
    chain.carry()

    # One is new itself, of the other the columns are.
    chain.write("CREATE TABLE new (id int PRIMARY KEY, c int, d int)", "ALTER TABLE old ADD c int, ADD d int")
    chain.write(*(f"INSERT INTO {table} VALUES (1, 2, 3)" for table in ("old", "new")))
    chain.write(*(statement.format(t=table) for table in ("old", "new") for statement in later))
    chain.write(*(f"INSERT INTO {table} (id) VALUES (2)" for table in ("old", "new")))
    chain.carry()

    # What older rows have in a column that was altered since is not known.
    assert chain.stopped().keys() <= {"public.old"}
    for table in {"old", "new"} - {name.removeprefix("public.") for name in chain.stopped()}:
        there, here = chain.both(f"SELECT * FROM public.{table} ORDER BY id")
        assert here == there


def test_many_alterations_in_one_transaction_are_followed(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = [f"ALTER TABLE t ADD c{number} int DEFAULT {number}" for number in range(40)]
    dropped = [f"ALTER TABLE t DROP c{number}" for number in range(0, 40, 2)]
    together = [*added, "UPDATE t SET c1 = 100", *dropped, "INSERT INTO t (id) VALUES (2)"]

    with closing(_followed(watched, tmp_path, monkeypatch, [], reads_ddl_log=True)) as log:
        with log.source.connection.transaction():
            log.source.execute(*together)
        log.follow()

        assert log.stopped == {}
        log.check()
        assert log.rows[TableId("public", "t")][(1,)]["c39"] == 39


def test_a_default_that_was_dropped_again_is_seen_where_triggers_wrote_it_down(
    watched: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = ["ALTER TABLE t ADD c float8 DEFAULT random()", "ALTER TABLE t ALTER c DROP DEFAULT"]

    with closing(_followed(watched, tmp_path, monkeypatch, statements, reads_ddl_log=True)) as log:
        assert _COMPUTED in log.stopped["public.t"].error


def test_a_pipeline_has_what_triggers_wrote_down_in_the_middle_of_a_transaction_and_without_a_row(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        *_MADE,
        "CREATE TABLE silent (id int PRIMARY KEY)",
        "INSERT INTO silent VALUES (1)",
        "CREATE PUBLICATION chosen FOR TABLE t, silent",
        more="    publication: chosen\n    ddl_trigger: true",
    )
    chain.carry()

    chain.write_together(
        "INSERT INTO t VALUES (2, 'a', 'b')",
        "ALTER TABLE t ADD c text NOT NULL DEFAULT 'it''s'",
        "UPDATE t SET c = 'new' WHERE id = 2",
        "ALTER TABLE t ALTER a TYPE varchar, ADD d int DEFAULT 7",
        "INSERT INTO t VALUES (3, 'a', 'b', 'c', 8)",
    )
    chain.write("ALTER TABLE silent ADD c int DEFAULT 5", "ALTER TABLE silent ALTER id TYPE bigint")
    chain.carry()

    assert chain.stopped() == {}
    for table in ("t", "silent"):
        source, warehouse = chain.both(f"SELECT * FROM public.{table} ORDER BY id")
        assert warehouse == source, table
    assert chain.rows("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'penstock_ddl'") == [(0,)]


@pytest.mark.nightly
def test_documents_and_arrays_that_came_with_a_column_are_in_older_rows(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_MADE)
    chain.carry()

    chain.write(
        """ALTER TABLE t ADD c jsonb NOT NULL DEFAULT '{"b": [1], "a": {}}', ADD d text[] DEFAULT '{x,"y z"}'""",
        "INSERT INTO t SELECT id + 1, a, b FROM t",
    )
    chain.carry()

    # The second row came by the log.
    assert chain.rows("SELECT id, c, d FROM public.t ORDER BY id") == [
        (1, '{"a": {}, "b": [1]}', '["x","y z"]'),
        (2, '{"a": {}, "b": [1]}', '["x","y z"]'),
    ]


def test_the_default_of_a_box_has_all_of_its_corners(watched: tuple[SourceDatabase, WalStream]) -> None:
    # PostgreSQL parts the boxes of an array by semicolons.
    source, _ = watched
    source.execute(*_MADE, "ALTER TABLE t ADD c box DEFAULT '(2,2),(1,1)', ADD d text[] DEFAULT '{a,\"b,c\"}'")

    (found,) = read_tables(source.connection, "one")

    assert [column.default for column in found.table.columns[3:]] == ["(2,2),(1,1)", '{a,"b,c"}']


def test_a_statement_of_others_waits_for_none_in_another_transaction(watched: tuple[SourceDatabase, WalStream]) -> None:
    source, _ = watched
    source.execute(*_MADE, "CREATE TABLE u (id int)", "SET lock_timeout = '3s'")
    source.execute("INSERT INTO penstock_ddl.log (written, described) VALUES (now() - interval '8 days', '')")
    with closing(source.session()) as other, other.transaction():
        other.execute("ALTER TABLE u ADD a int")

        source.execute("ALTER TABLE t ADD c int")

    told = source.connection.execute("SELECT described::json->'table'->>'name' FROM penstock_ddl.log ORDER BY number")
    assert told.fetchall() == [("u",), ("t",)]


def test_a_statement_of_others_never_fails_for_the_triggers(watched: tuple[SourceDatabase, WalStream]) -> None:
    source, _ = watched
    source.execute(*_MADE, "CREATE ROLE {name} LOGIN".replace("{name}", source.name), "DROP TABLE penstock_ddl.log")
    try:
        source.execute(f"ALTER TABLE t OWNER TO {source.name}", f"SET ROLE {source.name}", "ALTER TABLE t ADD c int")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            source.execute("INSERT INTO penstock_ddl.log (described) VALUES ('')")
    finally:
        source.execute("RESET ROLE", f"DROP OWNED BY {source.name}", f"DROP ROLE {source.name}")
