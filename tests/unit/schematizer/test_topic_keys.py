"""A pipeline's client registers the schema of a table's keys once in a topic, whatever the registry would take."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.schemas import key_schema
from penstock.core.errors import PenstockError
from penstock.schematizer.statements.create_table import parse_create_table

if TYPE_CHECKING:
    import httpx


def key_of(table: str, kind: str) -> str:
    return key_schema(parse_create_table(f"CREATE TABLE shop.{table} (id {kind} PRIMARY KEY)")) or ""


def test_keys_of_a_table_have_one_schema_in_a_topic_and_tables_each_their_own(registry: httpx.Client) -> None:
    url = str(registry.base_url)
    with closing(HttpRegistry(url)) as client:
        docs = client.register_key("out-key", key_of("docs", "INT"))
        other = client.register_key("out-key", key_of("other", "BIGINT"))

    # One that has just begun, and remembers nothing.
    with closing(HttpRegistry(url)) as client:
        for _ in range(2):
            with pytest.raises(PenstockError, match=r'shop\.docs was \(id "int"\) in out, and is \(id "long"\)'):
                client.register_key("out-key", key_of("docs", "BIGINT"))
        assert client.register_key("out-key", key_of("docs", "INT")) == docs
        assert client.register_key("out-key", key_of("other", "BIGINT")) == other
        client.register_key("out-key2-key", key_of("docs", "BIGINT"))


def test_a_topic_that_has_two_already_goes_on_with_the_newest(registry: httpx.Client) -> None:
    with closing(HttpRegistry(str(registry.base_url))) as client:
        for kind in ("INT", "BIGINT"):
            client.register_subject("out-key", key_of("docs", kind))

    with closing(HttpRegistry(str(registry.base_url))) as client:
        assert client.register_key("out-key", key_of("docs", "BIGINT"))
        with pytest.raises(PenstockError, match=r"its rows would get other keys"):
            client.register_key("out-key", key_of("docs", "INT"))
