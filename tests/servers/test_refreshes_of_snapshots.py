"""What the Schematizer knows of a pipeline's snapshots."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import httpx

from penstock.adapters.registry.access import RegistryAccess
from penstock.adapters.registry.client import HttpRegistry
from penstock.adapters.registry.refreshes import HttpRefreshes
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.ports.snapshots import Snapshot

_SCHEMA = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",)
)


def test_a_snapshot_is_one_refresh_from_its_begin_to_its_end_whoever_tells_of_it(schematizer: str) -> None:
    with closing(HttpRegistry(schematizer)) as registry:
        registry.register("of_snapshots", _SCHEMA)
    options = SnapshotOptions(where="id > 3", rows_per_second=70)
    snapshot = Snapshot("00000000002a", "of_snapshots", "shop.orders", options, Wanted.RUN, Status.RUNNING)

    for status, rows in ((Status.RUNNING, 10), (Status.PAUSED, 20), (Status.RUNNING, 5), (Status.DONE, 30)):
        # Each time by a process of its own, and twice.
        with closing(HttpRefreshes(RegistryAccess(schematizer))) as refreshes:
            for _ in range(2):
                refreshes.tell(replace(snapshot, status=status, rows=rows, rows_expected=30))

    answer = httpx.get(f"{schematizer}/v1/refreshes", params={"namespace": "of_snapshots"}, timeout=10).json()
    (refresh,) = answer["items"]
    assert (refresh["status"], refresh["rows_done"], refresh["rows_total"]) == ("success", 30, 30)
    assert (refresh["offset"], refresh["filter_condition"]) == ("00000000002a", "id > 3")
    assert (refresh["rows_per_second_max"], refresh["priority"]) == (70, 50)
