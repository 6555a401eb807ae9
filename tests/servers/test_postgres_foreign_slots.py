"""Replication slots that others made under the name of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnfitServerError
from penstock.wiring.postgres_server import postgres_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
_ALL = "SELECT * FROM public.t ORDER BY id"
_SLOTS = (
    "SELECT slot_name::text, plugin::text, confirmed_flush_lsn::text FROM pg_replication_slots"
    " WHERE database = current_database()"
)


def _slot(chain: PostgresChain) -> str:
    return postgres_source(chain.spec.sources[0]).slot_name


@pytest.mark.parametrize("plugin", ["pgoutput", pytest.param("test_decoding", marks=pytest.mark.nightly)])
def test_a_slot_that_somebody_else_made_is_left_alone_at_every_start(
    make_postgres: Callable[..., PostgresChain], plugin: str
) -> None:
    chain = make_postgres(_TABLE)
    slot = _slot(chain)
    chain.write(f"SELECT pg_create_logical_replication_slot('{slot}', '{plugin}')")
    made = chain.source_rows(_SLOTS)

    for _ in range(2):
        with pytest.raises(UnfitServerError, match="has not made it"):
            chain.carry()

    assert chain.source_rows(_SLOTS) == made
    chain.write(f"SELECT pg_drop_replication_slot('{slot}')", "INSERT INTO t VALUES (1, 'a')")
    chain.carry()
    assert chain.rows(_ALL) == [(1, "a")]


@pytest.mark.nightly
def test_a_start_that_was_refused_for_another_reason_owns_no_slot(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE, "CREATE TABLE keyless (a int)")
    with pytest.raises(UnfitServerError, match=r"public\.keyless"):
        chain.carry()
    slot = _slot(chain)
    chain.write("DROP TABLE keyless", f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")

    with pytest.raises(UnfitServerError, match="has not made it"):
        chain.carry()


@pytest.mark.nightly
def test_a_slot_of_another_plugin_is_left_alone_though_a_copy_was_begun(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(_TABLE)
    chain.crash("start.tracker_filled")
    slot = _slot(chain)
    chain.write(
        f"SELECT pg_drop_replication_slot('{slot}')",
        f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')",
    )
    made = chain.source_rows(_SLOTS)

    with pytest.raises(UnfitServerError, match="another program's"):
        chain.carry()

    assert chain.source_rows(_SLOTS) == made
