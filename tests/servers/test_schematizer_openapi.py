"""Whatever is sent to a route that OpenAPI tells of, the answer is of a form that OpenAPI tells.

Takes in every route there is, every night; `HYPOTHESIS_PROFILE=explore` goes on for longer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from schemathesis import APIOperation, Case, CheckFunction

# What is there, by the names of the parameters in paths.
KNOWN = {
    "namespace": "shopdb",
    "table_schema": "shop",
    "table_name": "orders",
    "element": "note",
    "name": "shopdb.shop.orders",
    "schema_id": 3,
    "note_id": 1,
    "subject": "users-value",
    "version": "1",
    "resource_id": "users-id",
}
USER = {"schema": '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'}
ASSOCIATION = {
    "resourceName": "users",
    "resourceNamespace": "-",
    "resourceId": "users-id",
    "associations": [{"subject": "users-value"}],
}
EXAMPLES = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 8
# A request may be of the right form and yet be refused: no form says what a schema is.
LEFT_OUT: list[CheckFunction] = [positive_data_acceptance]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[httpx.Client]:
    with served(f"sqlite:///{tmp_path / 'schematizer.db'}") as client:
        yield client


def fill(registry: httpx.Client) -> None:
    """Make what is known, where it is not there."""
    register(registry, "shopdb", ORDERS)
    registry.put("/mode", json={"mode": "READWRITE"})
    registry.delete("/mode/users-value")
    registry.post("/subjects/users-value/versions", json=USER)
    registry.post("/v1/notes", json={"schema_id": 1, "text": "a note"})
    registry.post("/associations", json=ASSOCIATION)


def problems_of(
    operation: APIOperation[Any, Any, Any, Any], base_url: str, known: dict[str, object], examples: int
) -> list[str]:
    """Send random requests, with `known` in their paths, and say what was wrong with the answers."""

    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy())
    def check(case: Case[Any]) -> None:
        case.path_parameters.update(known)
        case.call_and_validate(base_url=base_url, excluded_checks=LEFT_OUT)

    try:
        check()
    except FailureGroup as failures:
        return [f"{operation.label} {known}: {failures}"]
    return []


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_answer_is_as_it_is_documented(registry: httpx.Client) -> None:
    base_url = str(registry.base_url)
    problems = []
    found = schemathesis.openapi.from_url(f"{base_url}/openapi.json").get_all_operations()
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    for operation in operations:
        known = {name: KNOWN[name] for name in KNOWN if f"{{{name}}}" in operation.path}
        # Nothing is found by a path of random names, whatever else is sent.
        problems += problems_of(operation, base_url, {}, EXAMPLES // 2 if known else EXAMPLES)
        if known:
            fill(registry)
            problems += problems_of(operation, base_url, known, EXAMPLES)

    assert len(operations) > 50
    assert not problems, "\n\n".join(problems)
