"""A PostgreSQL source that is not as it should be, and processes that are killed in the middle."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.postgres.source.connection import connected
from penstock.adapters.postgres.source.slot import drop_slot, read_slot, require_slot
from penstock.adapters.postgres.source.stream import open_stream
from penstock.core.errors import LogError, LogPurgedError, PositionError, UnfitServerError
from penstock.core.positions import wal_position
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.catalog_watch import CatalogWatch
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.postgres_server import postgres_source, source_server
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

    from penstock.config.postgres_source import PostgresSourceSpec

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
_NO_SNAPSHOTS = "    snapshot: never"
_ALL = "SELECT * FROM public.t ORDER BY id"
_STARTS = 5
_WAL_SEGMENT = 16 << 20  # bytes


def _source(chain: PostgresChain) -> PostgresSourceSpec:
    return postgres_source(chain.spec.sources[0])


def _log_end(chain: PostgresChain) -> int:
    [(lsn,)] = chain.source_rows("SELECT (pg_current_wal_lsn() - '0/0')::bigint")
    return int(str(lsn))


@pytest.mark.parametrize("point", [pytest.param("start.tracker_filled", marks=pytest.mark.nightly), "start.published"])
def test_a_first_start_that_is_killed_is_made_again(make_postgres: Callable[..., PostgresChain], point: str) -> None:
    chain = make_postgres(_TABLE, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    chain.crash(point)

    chain.write("INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 1")
    chain.carry()

    source, warehouse = chain.both(_ALL)
    assert warehouse == source


def test_the_slot_of_a_copy_that_is_under_way_is_not_held_against_where_the_copy_was_announced(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE, "INSERT INTO t VALUES (1, 'a')")
    chain.crash("start.tracker_filled")
    announced = chain.position()

    while_copied = ask_source(_source(chain), announced, is_snapshotting=True).retention
    otherwise = ask_source(_source(chain), announced).retention

    assert while_copied is not None
    assert while_copied.level == "ok"
    assert otherwise is not None
    assert "past" in otherwise.text


@pytest.mark.parametrize(
    "point", [pytest.param("statement.registered", marks=pytest.mark.nightly), "statement.announced"]
)
def test_a_change_of_a_table_in_mid_transaction_is_followed_though_killed(
    make_postgres: Callable[..., PostgresChain], point: str
) -> None:
    chain = make_postgres(_TABLE, "INSERT INTO t VALUES (1, 'a')")
    chain.carry()
    chain.write_together(
        "INSERT INTO t VALUES (2, 'before')",
        "UPDATE t SET v = 'twice' WHERE id = 1",
        "ALTER TABLE t ADD COLUMN c int DEFAULT 5",
        "INSERT INTO t VALUES (3, 'behind', 7)",
        "TRUNCATE t",
        "INSERT INTO t VALUES (4, 'last', NULL)",
    )
    chain.crash(point)

    chain.carry()

    source, warehouse = chain.both(_ALL)
    assert warehouse == source


@pytest.mark.nightly
def test_a_transaction_that_is_published_in_pieces_is_whole_though_killed_between_two(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    chain.write_together(
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 60000) i",
        "UPDATE t SET v = id::text WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
    )
    # The first opens the capture; a slow server may say how far it is ahead of the rows.
    for _ in range(_STARTS):
        chain.crash("publish.committed:2")
        if chain.position().rows_from:
            break
    assert chain.position().rows_from > 0

    chain.carry()

    source, warehouse = chain.both("SELECT count(*), sum(id), sum(length(v)) FROM public.t")
    assert warehouse == source


@pytest.mark.nightly
def test_the_server_keeps_no_log_that_is_published(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    chain.write("INSERT INTO t VALUES (1, 'a')")
    chain.carry()

    status = ask_source(_source(chain), chain.position())

    with connected(source_server(_source(chain))) as connection:
        slot = read_slot(connection, _source(chain).slot_name)
    assert slot is not None
    assert slot.confirmed == chain.position().lsn
    assert status.retention is not None
    assert (status.retention.level, status.unanswered) == ("ok", "")


@pytest.mark.nightly
def test_a_table_that_changes_without_rows_is_noted_until_the_log_tells_of_it(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE, *(_TABLE.replace(" t ", f" {name} ") for name in ("gone", "named", "calm")))
    chain.carry()
    (source,) = chain.spec.sources

    def notes() -> dict[str, str]:
        with closing(open_pipeline_state(chain.spec)) as state:
            CatalogWatch(chain.spec, source).look(state)
            return {row.table: row.hint for row in state.tables() if row.link == source.name and row.hint}

    before = notes()
    chain.write("DROP TABLE gone", "ALTER TABLE named RENAME TO renamed", "ALTER TABLE t ADD COLUMN w int")
    changed = notes()
    chain.write("INSERT INTO renamed VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'a', 1)")
    chain.carry()
    told = notes()

    assert before == {}
    assert changed.keys() == {"public.gone", "public.named", "public.t"}
    assert "w is added" in changed["public.t"]
    assert told == {}


@pytest.mark.nightly
def test_a_slot_that_was_moved_past_us_stops_the_capture(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    chain.write("INSERT INTO t VALUES (1, 'a')")
    slot = _source(chain).slot_name
    chain.write(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")

    with pytest.raises(PositionError, match="past") as refused:
        chain.carry()

    assert "--new-slot" in refused.value.hint
    assert "past" in ask_source(_source(chain), chain.position()).unanswered


def test_a_slot_that_is_gone_stops_the_capture(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    chain.write("INSERT INTO t VALUES (1, 'a')")
    drop_slot(source_server(_source(chain)), _source(chain).slot_name)

    with pytest.raises(LogPurgedError, match="no replication slot"):
        chain.carry()


def test_a_server_whose_log_lacks_what_was_published_is_refused(make_postgres: Callable[..., PostgresChain]) -> None:
    """As one that was restored with its slot, or promoted without the last transactions."""
    chain = make_postgres(_TABLE)
    chain.carry()
    source, place = _source(chain), wal_position(chain.position())

    with pytest.raises(PositionError, match="lacks transactions that were published") as refused:
        require_slot(source_server(source), source.slot_name, replace(place, lsn=place.lsn + (1 << 40)))

    assert "--new-slot" in refused.value.hint
    assert "lacks transactions" in ask_source(source, replace(place, lsn=place.lsn + (1 << 40))).unanswered


def test_a_server_that_lacked_what_was_published_is_refused_when_its_log_has_grown_too(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    """A service starts again and again, while applications write to the server that was restored."""
    chain = make_postgres(_TABLE)
    chain.carry()
    spec = CaptureSpec(chain.spec, chain.spec.sources[0].name, epoch=1)
    with capture_kind(spec.source).look(spec) as look:
        published = replace(wal_position(chain.position()), lsn=_log_end(chain) + 2 * _WAL_SEGMENT)
        with pytest.raises(PositionError, match=r"lacks transactions .*was dropped"):
            look.require_reached(published)
        for n in range(3):
            chain.write(f"INSERT INTO t VALUES ({n}, 'a')", "SELECT pg_switch_wal()")
        assert _log_end(chain) > published.lsn

        with pytest.raises(LogPurgedError, match="no replication slot"):
            look.require_reached(published)


@pytest.mark.nightly
def test_a_server_that_never_was_in_the_timeline_that_was_read_is_refused_however_far_its_log_is(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    source, place = _source(chain), wal_position(chain.position())
    assert place.server_timeline == 1

    with pytest.raises(PositionError, match="in timeline 1 and does not have the log of timeline 2") as refused:
        open_stream(
            source_server(source), source.slot_name, [source.publication_name], replace(place, server_timeline=2)
        )

    assert "--new-slot" in refused.value.hint


@pytest.mark.nightly
def test_another_database_in_place_of_the_one_that_was_read_is_refused_and_nothing_is_lost(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    chain.write("INSERT INTO t VALUES (1, 'a')")
    right = chain.file.read_text()
    chain.file.write_text(right.replace(f"database: {chain.name}", "database: postgres"))

    with pytest.raises(LogError, match="another one answers"):
        chain.carry()

    chain.file.write_text(right)
    chain.carry()
    assert chain.rows(_ALL) == [(1, "a")]


def test_check_names_a_slot_that_is_not_ours(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE)
    source = _source(chain)
    chain.write(f"SELECT pg_create_logical_replication_slot('{source.slot_name}', 'test_decoding')")

    found = {each.subject: each for each in capture_kind(source).examine(source, chain.spec.pipeline)}

    told = found[f"source {source.name}, slot {source.slot_name}"]
    assert (told.level, "test_decoding" in told.message, "another `slot`" in told.hint) == ("error", True, True)


def test_nobody_is_kept_from_writing_by_a_publication_of_ours(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE, "CREATE TABLE keyless (a int)")

    with pytest.raises(UnfitServerError, match=r"public\.keyless") as refused:
        chain.carry()

    assert "REPLICA IDENTITY FULL" in refused.value.hint
    chain.write("INSERT INTO keyless VALUES (1)", "UPDATE keyless SET a = 2")


def test_a_table_that_the_publication_lacks_is_named_and_the_others_are_carried(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE, "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO t VALUES (1, 'a')")
    chain.write(f"CREATE PUBLICATION {_source(chain).publication_name} FOR TABLE t")

    chain.carry()

    assert chain.rows(_ALL) == [(1, "a")]
    assert "does not have it" in chain.stopped()["public.u"]


def test_a_publication_that_leaves_out_kinds_of_changes_is_refused(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE)
    name = _source(chain).publication_name
    chain.write(f"CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish = 'insert')")

    with pytest.raises(UnfitServerError, match="leaves out") as refused:
        chain.carry()

    assert f"ALTER PUBLICATION {name} SET" in refused.value.hint


def test_check_says_what_is_missing(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        _TABLE,
        "CREATE TABLE keyless (a int)",
        "CREATE ROLE nobody_{name} LOGIN PASSWORD 'penstock'",
        more="",
    )
    source = _source(chain).model_copy(update={"user": f"nobody_{chain.name}"})

    found = {each.subject: each for each in capture_kind(source).examine(source, chain.spec.pipeline)}

    subject = f"source {source.name}"
    assert found[f"{subject}, wal_level"].level == "ok"
    assert found[f"{subject}, replication"].hint.startswith(f"ALTER ROLE nobody_{chain.name} REPLICATION")
    assert "public.keyless" in found[f"{subject}, publication {source.publication_name}"].message
    assert "GRANT SELECT ON public.t" in found[f"{subject}, grants"].hint
    with closing(chain.connect()) as connection:
        connection.execute(f"DROP ROLE nobody_{chain.name}".encode())


@pytest.mark.nightly
def test_a_table_that_nobody_wanted_when_it_was_made_stops_when_it_is_added(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE a (id int PRIMARY KEY)", more=_NO_SNAPSHOTS)
    every_table = chain.file.read_text()
    chain.file.write_text(every_table.replace('["public.*"]', '["public.a"]'))
    chain.carry()
    chain.write("CREATE TABLE later (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    chain.write("INSERT INTO b VALUES (1), (2)", "INSERT INTO a VALUES (1)")
    chain.carry()

    chain.file.write_text(every_table)
    chain.write("INSERT INTO b VALUES (3)", "INSERT INTO later VALUES (1)", "INSERT INTO a VALUES (2)")
    chain.carry()

    assert set(chain.stopped()) == {"public.b"}
    assert "had older ones that were not carried" in chain.stopped()["public.b"]
    assert chain.rows("SELECT id FROM public.a ORDER BY id") == [(1,), (2,)]
    assert chain.rows("SELECT id FROM public.later") == [(1,)]


@pytest.mark.nightly
def test_a_table_that_is_older_than_the_pipeline_and_was_not_copied_stops(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    tables = ("CREATE SCHEMA other", "CREATE TABLE other.old (id int PRIMARY KEY)")
    chain = make_postgres(_TABLE, *tables, more=_NO_SNAPSHOTS)
    chain.write("INSERT INTO other.old VALUES (1)")
    chain.carry()

    chain.write(
        "ALTER TABLE other.old SET SCHEMA public", "INSERT INTO old VALUES (2)", "INSERT INTO t VALUES (1, 'a')"
    )
    chain.carry()

    assert chain.rows(_ALL) == [(1, "a")]
    assert "older than the pipeline" in chain.stopped()["public.old"]
