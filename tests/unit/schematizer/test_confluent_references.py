"""Schemas that use schemas of other subjects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
CUSTOMER = {"type": "record", "name": "shop.Customer", "fields": [{"name": "home", "type": "shop.Address"}]}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "customer", "type": "shop.Customer"}, {"name": "ship_to", "type": "shop.Address"}],
}


def post(registry: httpx.Client, path: str, schema: object, *uses: tuple[str, str, int]) -> httpx.Response:
    references = [{"name": name, "subject": subject, "version": version} for name, subject, version in uses]
    return registry.post(path, json={"schema": json.dumps(schema), "references": references})


def register_chain(registry: httpx.Client) -> tuple[int, int, int]:
    address = post(registry, "/subjects/address/versions", ADDRESS).json()
    customer = post(registry, "/subjects/customer/versions", CUSTOMER, ("shop.Address", "address", 1)).json()
    order = post(
        registry,
        "/subjects/order/versions",
        ORDER,
        ("shop.Customer", "customer", 1),
        ("shop.Address", "address", -1),
    ).json()
    return address["id"], customer["id"], order["id"]


def test_references_are_resolved_however_deep_and_returned_as_they_were_meant(registry: httpx.Client) -> None:
    _, _, order_id = register_chain(registry)

    by_id = registry.get(f"/schemas/ids/{order_id}").json()
    by_version = registry.get("/subjects/order/versions/1").json()

    assert json.loads(by_id["schema"]) == ORDER
    assert by_id["references"] == [
        {"name": "shop.Customer", "subject": "customer", "version": 1},
        {"name": "shop.Address", "subject": "address", "version": 1},
    ]
    assert by_version["references"] == by_id["references"]


def test_a_lookup_finds_a_schema_only_with_its_references_in_any_order(registry: httpx.Client) -> None:
    register_chain(registry)
    uses = [("shop.Address", "address", 1), ("shop.Customer", "customer", 1)]

    assert post(registry, "/subjects/order", ORDER, *uses).json()["version"] == 1
    assert post(registry, "/subjects/order", ORDER).json()["error_code"] == 42201


def test_users_of_a_version_are_told(registry: httpx.Client) -> None:
    _, customer_id, order_id = register_chain(registry)

    assert registry.get("/subjects/address/versions/1/referencedby").json() == [customer_id, order_id]
    assert registry.get("/subjects/customer/versions/latest/referencedby").json() == [order_id]
    assert registry.get("/subjects/order/versions/1/referencedby").json() == []
    assert registry.get("/subjects/address/versions/1/referencedby?offset=1&limit=1").json() == [order_id]


def test_what_is_used_is_not_deleted(registry: httpx.Client) -> None:
    register_chain(registry)

    version = registry.delete("/subjects/address/versions/1")
    subject = registry.delete("/subjects/address")
    registry.delete("/subjects/order")
    registry.delete("/subjects/customer")
    softly = registry.delete("/subjects/address")
    for_ever = registry.delete("/subjects/address?permanent=true")
    registry.delete("/subjects/order?permanent=true")
    registry.delete("/subjects/customer?permanent=true")

    assert [(each.status_code, each.json()["error_code"]) for each in (version, subject)] == [(422, 42206)] * 2
    assert softly.json() == [1]
    assert for_ever.json()["error_code"] == 42206, "what is deleted softly could not be read any more"
    assert registry.delete("/subjects/address?permanent=true").json() == [1]


def test_a_reference_that_leads_nowhere_is_named_and_nothing_is_written(registry: httpx.Client) -> None:
    nowhere = post(registry, "/subjects/customer/versions", CUSTOMER, ("shop.Address", "address", 1))
    post(registry, "/subjects/address/versions", ADDRESS)
    no_version = post(registry, "/subjects/customer/versions", CUSTOMER, ("shop.Address", "address", 2))
    no_type = post(registry, "/subjects/customer/versions", {**CUSTOMER, "fields": [{"name": "a", "type": "Adress"}]})

    for refused, reason in ((nowhere, "leads nowhere"), (no_version, "no version 2"), (no_type, "Adress")):
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)
        assert reason in refused.json()["message"]
    assert registry.get("/subjects").json() == ["address"]


def test_a_type_that_two_references_declare_is_refused(registry: httpx.Client) -> None:
    post(registry, "/subjects/one/versions", ADDRESS)
    post(registry, "/subjects/two/versions", {**ADDRESS, "fields": [{"name": "street", "type": "string"}]})

    refused = post(registry, "/subjects/c/versions", CUSTOMER, ("shop.Address", "one", 1), ("a", "two", 1))

    assert refused.json()["error_code"] == 42201
    assert "declared twice" in refused.json()["message"]


def test_compatibility_looks_into_what_is_used(registry: httpx.Client) -> None:
    register_chain(registry)
    registry.put("/config/address", json={"compatibility": "NONE"})
    post(registry, "/subjects/address/versions", {**ADDRESS, "fields": [{"name": "city", "type": "int"}]})

    refused = post(registry, "/subjects/customer/versions", CUSTOMER, ("shop.Address", "address", 2))

    assert refused.status_code == 409
    assert "home.city: string is not readable as int" in refused.json()["message"]


def test_the_subject_of_a_reference_is_of_the_same_context(registry: httpx.Client) -> None:
    post(registry, "/subjects/:.lab:address/versions", ADDRESS)

    taken = post(registry, "/subjects/:.lab:customer/versions", CUSTOMER, ("shop.Address", "address", 1))
    refused = post(registry, "/subjects/customer/versions", CUSTOMER, ("shop.Address", "address", 1))

    assert taken.json()["references"] == [{"name": "shop.Address", "subject": ":.lab:address", "version": 1}]
    assert refused.json()["error_code"] == 42201
