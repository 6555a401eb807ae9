"""Every method of Confluent's two Python clients against the running service."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, SchemaRegistryClient
from tests.servers import confluent_calls
from tests.servers.confluent_calls import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS: dict[str, Callable[[dict[str, object]], SchemaRegistryClient | AsyncSchemaRegistryClient]] = {
    "sync": SchemaRegistryClient,
    "async": AsyncSchemaRegistryClient,
}
CALLS = {
    name: function
    for name, function in vars(confluent_calls).items()
    if inspect.isfunction(function) and list(inspect.signature(function).parameters) == ["call"]
}
# The fixture calls them.
CLOSING = {"close", "aclose"}


@pytest.fixture(params=KINDS)
def call(request: pytest.FixtureRequest, schematizer: str) -> Iterator[Caller]:
    kind = str(request.param)
    prefix = f"{kind}_{request.node.callspec.params['method']}"
    with asyncio.Runner() as runner:
        client = KINDS[kind]({"url": schematizer, "max.retries": 0})
        caller = Caller(client, runner, schematizer, prefix)
        yield caller
        caller("aclose" if kind == "async" else "close")


@pytest.mark.parametrize("method", CALLS)
def test_a_method_works_as_the_client_says(call: Caller, method: str) -> None:
    CALLS[method](call)

    assert method in call.called


@pytest.mark.parametrize("kind", KINDS)
def test_no_method_is_left_out(kind: str) -> None:
    methods = {name for name in dir(KINDS[kind]) if not name.startswith("_")} - CLOSING

    assert methods == set(CALLS)
