"""A small shop's tables, as a registry has them after some months: for pictures and for tests in a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_ORDERS = """
CREATE TABLE shop.orders (
  id bigint unsigned NOT NULL,
  customer_id bigint unsigned NOT NULL COMMENT 'who ordered: shop.customers.id',
  status enum('cart','paid','sent','returned') NOT NULL DEFAULT 'cart',
  total decimal({precision},2) NOT NULL,
  currency char(3) NOT NULL DEFAULT 'EUR',
  {columns}
  created_at datetime(6) NOT NULL,
  PRIMARY KEY (id)
) COMMENT='One row for each order, from the first article in the cart on'
"""
_TABLES = {
    "customers": """
CREATE TABLE shop.customers (
  id bigint unsigned NOT NULL PRIMARY KEY,
  email varchar(254) NOT NULL,
  full_name varchar(120) NOT NULL,
  birthday date,
  locale varchar(12) NOT NULL DEFAULT 'en',
  newsletter tinyint(1) NOT NULL DEFAULT 0,
  created_at datetime(6) NOT NULL
) COMMENT='People who have an account'""",
    "articles": """
CREATE TABLE shop.articles (
  sku varchar(32) NOT NULL PRIMARY KEY,
  title varchar(200) NOT NULL COMMENT 'as it is printed on the invoice',
  price decimal(10,2) NOT NULL,
  weight_grams int unsigned,
  attributes json
)""",
    "payments": """
CREATE TABLE shop.payments (
  id bigint unsigned NOT NULL PRIMARY KEY,
  order_id bigint unsigned NOT NULL,
  method enum('card','transfer','voucher') NOT NULL,
  amount decimal(10,2) NOT NULL,
  paid_at datetime(6)
) COMMENT='Money that came in'""",
    "order_lines": """
CREATE TABLE shop.order_lines (
  order_id bigint unsigned NOT NULL,
  line int unsigned NOT NULL,
  sku varchar(32) NOT NULL,
  quantity int unsigned NOT NULL,
  price decimal(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
)""",
}
_FREIGHT = """
CREATE TABLE freight.parcels (
  id bigint unsigned NOT NULL PRIMARY KEY,
  order_id bigint unsigned NOT NULL,
  carrier varchar(40) NOT NULL,
  tracking varchar(64),
  delivered_at datetime
) COMMENT='What left the warehouse'"""
_SOURCES = {
    "orders": ("orders-team@example.com", "sales", ""),
    "customers": ("accounts@example.com", "people", "People who have an account. Deleted on request: see the runbook."),
    "payments": ("payments@example.com", "finance", ""),
    "articles": ("", "catalogue", ""),
}
_COLUMNS = (
    ("orders", "status", "Where the order stands; returned comes days after sent", False),
    ("orders", "total", "What the buyer pays, taxes included, in the order's currency", False),
    ("orders", "id", "Counts up, with gaps", False),
    ("customers", "email", "Unique without regard to case", True),
    ("customers", "full_name", "As the buyer wrote it", True),
    ("customers", "birthday", "Only where a voucher needs it", True),
)


def fill(client: httpx.Client) -> str:
    """Register the shop through the API and return the newest topic of its orders."""
    named = {"X-Penstock-Author": "ada@example.com"}
    client.put("/v1/namespaces/shopdb", json={"requires_owner": False}, headers=named).raise_for_status()
    _register(client, "shopdb", _ORDERS.format(precision=10, columns=""))
    _register(client, "shopdb", _ORDERS.format(precision=10, columns="coupon varchar(40),"))
    note = "note varchar(400) COMMENT 'what the buyer remarked',"
    newest = _register(client, "shopdb", _ORDERS.format(precision=12, columns=f"{note} gift tinyint(1),"))
    for statement in _TABLES.values():
        _register(client, "shopdb", statement)
    _register(client, "freight", _FREIGHT)
    for table, (owner, category, doc) in _SOURCES.items():
        said = {"owner_email": owner, "category": category, "doc": doc}
        client.put(f"/v1/sources/shopdb/shop/{table}", json=said, headers=named).raise_for_status()
    for table, column, doc, contains_pii in _COLUMNS:
        path = f"/v1/sources/shopdb/shop/{table}/elements/{column}"
        body: dict[str, object] = {"doc": doc, "contains_pii": contains_pii}
        client.put(path, json=body, headers={"X-Penstock-Author": "grace@example.com"}).raise_for_status()
    note_body = {"schema_id": newest["value_schema_id"], "element": "gift", "text": "NULL before the shop had gifts."}
    client.post("/v1/notes", json=note_body, headers=named).raise_for_status()
    for fields in ([], [{"name": "referrer", "type": ["null", "string"], "default": None, "doc": "where from"}]):
        first = {"name": "url", "type": "string"}
        schema = {"type": "record", "name": "Click", "namespace": "web", "fields": [first, *fields]}
        client.post("/subjects/web.clicks-value/versions", json={"schema": json.dumps(schema)}).raise_for_status()
    _tell_who_uses(client, str(newest["topic"]))
    return str(newest["topic"])


def _tell_who_uses(client: httpx.Client, topic: str) -> None:
    programs = (
        ("producers", "shop capture", "data", topic),
        ("consumers", "order enricher", "search", topic),
        ("producers", "order enricher", "search", "shopdb.shop.order_lines"),
        ("consumers", "fraud alarm", "payments", topic),
    )
    for role, name, team, seen_on in programs:
        said = {"owner_email": f"{team}-team@example.com", "team": team}
        client.put(f"/v1/{role}/{name}", json=said).raise_for_status()
        client.post(f"/v1/{role}/{name}/seen", json={"topic": seen_on}).raise_for_status()
    target = {"type": "duckdb", "destination": "warehouse.duckdb"}
    client.put("/v1/data_targets/warehouse", json=target).raise_for_status()
    client.put("/v1/consumer_groups/shop-warehouse", json={"data_target": "warehouse"}).raise_for_status()
    path = "/v1/consumer_groups/shop-warehouse/data_sources"
    client.post(path, json={"namespace": "shopdb"}).raise_for_status()


def _register(client: httpx.Client, namespace: str, statement: str) -> dict[str, object]:
    answer = client.post("/v1/schemas/mysql", json={"namespace": namespace, "create_table": statement})
    assert answer.status_code == 200, answer.text
    registered: dict[str, object] = answer.json()
    return registered
