"""What is said of Delta tables that cannot go on is true: what a hint says brings them on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from tests.servers.sink_case import FIRST, TABLE, schema_change

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import FULL_REFRESH, PositionError, TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.delta_case import DeltaPlace, DeltaTarget

    from penstock.core.batches import Batch

SCHEMAS = {1: FIRST}


def load(place: DeltaPlace, *batches: Batch) -> None:
    place.open().load(TABLE, batches, SCHEMAS)


def stopped(place: DeltaPlace, *batches: Batch) -> str:
    with pytest.raises(TableStoppedError) as caught:
        load(place, *batches)
    return caught.value.hint


def rows(place: DeltaPlace) -> Sequence[tuple[object, ...]]:
    return place.ask("SELECT id, qty FROM shop.orders ORDER BY id")


@pytest.mark.nightly
def test_a_table_goes_on_when_the_one_that_was_there_is_deleted(lake_place: DeltaPlace) -> None:
    lake_place.do("CREATE TABLE shop.orders AS SELECT 1 AS theirs")
    batches = [lake_place.batch(0, [("c", "a", 1)]), lake_place.batch(1, [("c", "b", 2)])]

    assert "delete or move that table" in stopped(lake_place, *batches)
    lake_place.do("DROP TABLE shop.orders")
    load(lake_place, *batches)

    assert rows(lake_place) == [("a", 1), ("b", 2)]


@pytest.mark.nightly
def test_a_table_that_somebody_dropped_goes_on_with_a_full_refresh(lake_place: DeltaPlace) -> None:
    load(lake_place, lake_place.batch(0, [("c", "a", 1)]))
    lake_place.do("DROP TABLE shop.orders")

    assert FULL_REFRESH in stopped(lake_place, lake_place.batch(1, [("c", "b", 2)]))
    begins = replace(schema_change(1), kind=SchemaChangeKind.CREATE, first_order=(1, 8, 0), last_order=(1, 8, 0))
    again = lake_place.batch(5, [("r", "a", 1), ("r", "b", 2)])
    lake_place.open().finish(9, {}, [TABLE])
    load(lake_place, begins, replace(again, first_order=(1, 9, 0), last_order=(1, 9, 0)))

    assert rows(lake_place) == [("a", 1), ("b", 2)]


@pytest.mark.nightly
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_table_whose_progress_is_gone_or_damaged_goes_on_when_the_lake_is_restored(
    lake_place: DeltaPlace, *, is_gone: bool
) -> None:
    load(lake_place, lake_place.batch(0, [("c", "a", 1)]))
    target = cast("DeltaTarget", lake_place.target)
    store = open_objects(ObjectsSpec(target.url))
    backup = {key: store.get(key) for key in store.list(f"{target.lake_state().folder(TABLE)}/")}
    for key in backup:
        store.delete([key])
        if not is_gone:
            store.put(key, b"{")

    # A file that is gone stops its table; one that is damaged says that somebody wrote into the lake.
    with pytest.raises(TableStoppedError if is_gone else PositionError) as caught:
        load(lake_place, lake_place.batch(1, [("c", "b", 2)]))
    for key, content in backup.items():
        store.put(key, content)
    load(lake_place, lake_place.batch(1, [("c", "b", 2)]))

    assert ("restore that file" if is_gone else "restore the lake as it was") in caught.value.hint
    assert rows(lake_place) == [("a", 1), ("b", 2)]
