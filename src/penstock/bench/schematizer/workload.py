"""What the benches of the Schematizer ask for."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType

Request: TypeAlias = tuple[str, str, str]
"""Method, path and body."""

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
SUBJECT: Final = "bench-value"
# A record of eight columns, as tables have them.
SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Orders",
        "fields": [{"name": f"column_{n}", "type": ["null", "string"], "default": None} for n in range(8)],
    }
)
SCHEMA_BODY: Final = json.dumps({"schema": SCHEMA}).encode()
_TABLE: Final = TableSchema(
    TableId("bench", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False, declaration="bigint"),
        *(Column(f"c{n}", TextType(64, "utf8mb4"), nullable=True, declaration="varchar(64)") for n in range(7)),
    ),
    ("id",),
)
_TABLE_BODY: Final = {"namespace": "bench", "key_schema": key_schema(_TABLE), "value_schema": value_schema(_TABLE)}

REGISTRATION: Final[Request] = ("POST", f"/subjects/{SUBJECT}/versions", json.dumps({"schema": SCHEMA}))
TABLE: Final[Request] = ("POST", "/v1/tables", json.dumps(_TABLE_BODY))


def lookup(schema_id: int) -> Request:
    """GET of a schema by its id."""
    return ("GET", f"/schemas/ids/{schema_id}", "")


def newest(subject: str) -> Request:
    """GET of the newest version of a subject."""
    return ("GET", f"/subjects/{subject}/versions/latest", "")
