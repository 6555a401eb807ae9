"""Schema-change events that say something else to one link: as messages, and as that link and others see them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.conftest import MemoryPublisher

from penstock.core.batches import Batch
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan
from penstock.links.objects.publish import BatchPublisher

TABLE = TableId("shop", "orders")
_NAMES = st.sampled_from(("", "db-to-one", "db-to-two"))


def told(begins_for: str = "", ends_for: str = "", kind: SchemaChangeKind = SchemaChangeKind.SCHEMA) -> SchemaChange:
    change = SchemaChange("db", TABLE, "db.shop.orders", "", 1, 2, 1, (1, 4, 2**30), kind)
    return replace(change, begins_for=begins_for, ends_for=ends_for)


def batch_of(change: SchemaChange) -> Batch:
    """What the link that writes files makes of an event."""
    publisher = MemoryPublisher()
    BatchPublisher(publisher, "batches", 1).publish(ObjectsPlan(1, ((0, change),), ()), [])
    return Batch.from_json(publisher.committed[0])


@given(_NAMES, _NAMES)
def test_a_message_says_for_which_link_a_table_begins_or_ends(begins_for: str, ends_for: str) -> None:
    change = told(begins_for, ends_for)
    batch = batch_of(change)

    assert SchemaChange.from_json(change.to_json()) == change
    assert Batch.from_json(batch.to_json()) == batch
    assert (batch.begins_for, batch.ends_for, batch.rows) == (begins_for, ends_for, 0)
    assert change.for_all == told()


def test_older_releases_can_read_what_is_for_no_link() -> None:
    for message in (told().to_json(), batch_of(told()).to_json()):
        assert not {"begins_for", "ends_for"} & json.loads(message).keys()


@pytest.mark.parametrize("kind", SchemaChangeKind)
def test_the_table_begins_for_the_link_that_is_named_and_for_no_other(kind: SchemaChangeKind) -> None:
    batch = batch_of(told("db-to-one", kind=kind))

    assert batch.seen_by("db-to-one").kind is SchemaChangeKind.CREATE
    assert batch.seen_by("db-to-two") == replace(batch, begins_for="")
    assert batch_of(told(kind=kind)).seen_by("db-to-one").kind is kind
