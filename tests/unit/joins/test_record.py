"""The position record of a join: which topic has which schema."""

from __future__ import annotations

import json

import pytest

from penstock.links.joins.record import NO_BATCH, JoinRecord

_EU, _US, _ORDERS = "eu.shop.user", "us.shop.user", "eu.shop.orders"


def read_back(topics: list[str], schema_ids: list[int]) -> JoinRecord:
    """What is read of a record that has been written with those topics and schemas."""
    record = JoinRecord(1, 1, NO_BATCH, "digest", tuple(schema_ids), ids={topic: f"id of {topic}" for topic in topics})
    return JoinRecord.from_mapping(json.loads(json.dumps(record.to_mapping())))


def test_topics_that_share_a_schema_have_it_both_and_the_others_have_their_own() -> None:
    record = read_back([_EU, _US, _ORDERS], [5, 5, 9])

    assert record.schemas == {_EU: 5, _US: 5, _ORDERS: 9}


def test_a_topic_that_an_older_release_joined_with_itself_has_its_schema_once() -> None:
    record = read_back([_EU, _ORDERS], [5, 9, 5])

    assert record.schemas == {_EU: 5, _ORDERS: 9}
    assert record == read_back([_EU, _ORDERS], [5, 9])


@pytest.mark.parametrize("schema_ids", [[5, 5, 5, 9], [5, 9, 9, 5], []])
def test_no_topic_gets_a_schema_that_may_be_that_of_another(schema_ids: list[int]) -> None:
    record = read_back([_EU, _US, _ORDERS], schema_ids)

    assert record.schemas == {}
