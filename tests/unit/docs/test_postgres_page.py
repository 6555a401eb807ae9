"""docs/postgres.md says what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.adapters.postgres.source.ddl_trigger import trigger_statements
from penstock.core.arrow_types import arrow_type
from penstock.core.avro.column_types import avro_type
from penstock.core.postgres import types
from penstock.core.postgres.types import TypeInfo, column_type, find_type
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import DUCKDB, render_type
from penstock.core.warehouse.dialects import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE: Final = Path(__file__).parents[3] / "docs" / "postgres.md"
_INET, _ENUM, _CITEXT, _ARRAY, _RANGE = 869, 20001, 20002, 1007, 3904
_CATALOG: Final = {
    _INET: TypeInfo("inet"),
    _ENUM: TypeInfo("mood", "e"),
    _CITEXT: TypeInfo("citext"),
    _ARRAY: TypeInfo("_int4", element=types.INT4),
    _RANGE: TypeInfo("int4range", "r"),
}
_CARRIED: Final[Mapping[str, tuple[int, int]]] = {
    "boolean": (types.BOOL, -1),
    "smallint": (types.INT2, -1),
    "integer": (types.INT4, -1),
    "bigint": (types.INT8, -1),
    "oid": (types.OID, -1),
    "real": (types.FLOAT4, -1),
    "double precision": (types.FLOAT8, -1),
    "numeric(12,2)": (types.NUMERIC, (12 << 16 | 2) + 4),
    "numeric, or of more than 76 digits": (types.NUMERIC, -1),
    "text, varchar, char, name, citext": (_CITEXT, -1),
    "enums": (_ENUM, -1),
    "bytea": (types.BYTEA, -1),
    "uuid": (types.UUID, -1),
    "json, jsonb": (types.JSONB, -1),
    "date": (types.DATE, -1),
    "time": (types.TIME, -1),
    "timestamp": (types.TIMESTAMP, -1),
    "timestamp with time zone": (types.TIMESTAMPTZ, -1),
    "arrays of any of them": (_ARRAY, -1),
    "bit, timetz, interval, inet, cidr, macaddr, money, xml": (types.BIT, -1),
    "ranges, composites, geometric types, hstore, tsvector and every other type": (_RANGE, -1),
}


def _row(name: str, oid: int, modifier: int) -> str:
    type_ = column_type(find_type(oid, modifier, _CATALOG))
    avro = avro_type(type_)
    if isinstance(avro, dict):
        digits = f"({avro['precision']},{avro['scale']})" if avro["logicalType"] == "decimal" else ""
        avro = f"{avro['type']}`, `{avro['logicalType']}{digits}"
    rendered = " | ".join(f"`{render_type(dialect, type_)}`" for dialect in (DUCKDB, POSTGRES, DELTA))
    return f"| {name} | `{arrow_type(type_)}` | `{avro}` | {rendered} |"


def test_the_table_of_carried_types_is_what_the_code_does() -> None:
    _, _, below = _PAGE.read_text(encoding="utf-8").partition("## Types\n")
    listed = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]

    assert listed == [_row(name, *type_) for name, type_ in _CARRIED.items()]


def test_a_superuser_finds_there_what_a_start_would_type() -> None:
    """But for line breaks."""
    page = " ".join(_PAGE.read_text().split())

    missing = [each for each in trigger_statements() if f"{' '.join(each.split())};" not in page]

    assert missing == []
