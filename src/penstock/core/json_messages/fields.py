"""The names of our own fields in a JSON message; no column's name begins with their prefix."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "__penstock_"
SCHEMA: Final = "__penstock_schema"
OP: Final = "__penstock_op"
SOURCE: Final = "__penstock_source"
TABLE: Final = "__penstock_table"
TS_MS: Final = "__penstock_ts_ms"
TRANSACTION: Final = "__penstock_transaction"
POSITION: Final = "__penstock_position"
ROW: Final = "__penstock_row"
SERVER_ID: Final = "__penstock_server_id"
LACKS: Final = "__penstock_lacks"
BEFORE: Final = "__penstock_before"
BEFORE_LACKS: Final = "__penstock_before_lacks"

FRONT: Final = b'{"' + SCHEMA.encode() + b'":'
"""What every message begins with; the schema's id follows."""
