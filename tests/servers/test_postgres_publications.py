"""A table that leaves the publication of a PostgreSQL source, or is published otherwise, and comes back."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.core.snapshots import SnapshotOptions, Status
from penstock.wiring.catalog_watch import CatalogWatch
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.postgres_server import postgres_source
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

_TABLES = ("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY)")
_ALL = "SELECT * FROM public.t ORDER BY id"
_NEVER = "    snapshot: never"


def _publication(chain: PostgresChain) -> str:
    return postgres_source(chain.spec.sources[0]).publication_name


def _carried(make_postgres: Callable[..., PostgresChain], more: str = "") -> PostgresChain:
    """A pipeline that has carried two tables of a publication of tables."""
    chain = make_postgres(*_TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", more=more)
    chain.write(f"CREATE PUBLICATION {_publication(chain)} FOR TABLE t, u")
    chain.carry()
    return chain


def _leave_and_return(chain: PostgresChain) -> None:
    name = _publication(chain)
    chain.write(f"ALTER PUBLICATION {name} DROP TABLE t", "INSERT INTO t VALUES (3, 'unseen')")
    chain.write("DELETE FROM t WHERE id = 1", f"ALTER PUBLICATION {name} ADD TABLE t")


def test_a_table_that_left_the_publication_and_came_back_is_refreshed_by_the_next_start(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _carried(make_postgres)
    _leave_and_return(chain)
    chain.write("INSERT INTO t VALUES (4, 'seen')", "INSERT INTO u VALUES (1)")

    chain.carry()
    source, warehouse = chain.both(_ALL)
    chain.write("UPDATE t SET v = 'c'", "UPDATE u SET id = 2")
    chain.carry()

    assert warehouse == source
    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    assert chain.stopped() == {}
    assert chain.rows(_ALL) == chain.source_rows(_ALL)
    assert chain.rows("SELECT id FROM public.u") == [(2,)]


def test_it_stops_at_its_next_row_where_no_snapshot_is_taken_by_itself_and_is_named_before(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = _carried(make_postgres, _NEVER)
    _leave_and_return(chain)
    (source,) = chain.spec.sources
    with closing(open_pipeline_state(chain.spec)) as state:
        CatalogWatch(chain.spec, source).look(state)
        noted = {row.table: row.hint for row in state.tables() if row.link == source.name and row.hint}
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions())
    chain.carry()
    refused = read_snapshots(chain.spec)
    chain.write("INSERT INTO t VALUES (4, 'seen')", "INSERT INTO u VALUES (1)")
    chain.carry()
    stopped = chain.stopped()
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions(full_refresh=True))
    chain.carry()

    assert list(noted) == ["public.t"]
    assert "came back" in noted["public.t"]
    assert [(each.status, "came back" in each.error) for each in refused] == [(Status.FAILED, True)]
    assert list(stopped) == ["public.t"]
    assert "was taken out of the publication and came back" in stopped["public.t"]
    assert chain.rows("SELECT id FROM public.u") == [(1,)]
    assert chain.rows(_ALL) == chain.source_rows(_ALL)


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["t WHERE (id > 2), u", "t (id), u", "u"])
def test_another_row_filter_or_column_list_stops_the_table_alone(
    make_postgres: Callable[..., PostgresChain], how: str
) -> None:
    chain = _carried(make_postgres, _NEVER)
    name = _publication(chain)
    chain.write(f"ALTER PUBLICATION {name} SET TABLE {how}", "INSERT INTO t VALUES (5, 'e')")
    if how == "u":
        chain.write(f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA public")

    chain.write("INSERT INTO t VALUES (6, 'f')", "INSERT INTO u VALUES (1)")
    chain.carry()

    assert list(chain.stopped()) == ["public.t"]
