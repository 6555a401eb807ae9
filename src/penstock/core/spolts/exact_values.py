"""What has to be done to values of Avro records that the codec alone would change, or hand over in a strange type.

A decimal without fraction digits is an int: so are unsigned 64-bit integers in a
table's rows. Moments without a time zone and numbers that no 32-bit float holds
are refused, because the codec would write something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]
"""Takes a value of one part of a schema and returns it as it should be. Never changes what it is given."""

_MOMENTS: Final = frozenset({"timestamp-micros", "timestamp-millis"})
_FLOAT_MAX: Final = 3.4028235677973366e38
"""From here on a number rounds to infinity as a 32-bit float (IEEE 754)."""


def decoded_values(schema: object) -> Convert | None:
    """What to do to values that were decoded with a schema that fastavro has parsed; None for nothing."""
    return _Converters(_after_decoding).of(schema)


def encodable_values(schema: object) -> Convert | None:
    """What to do to values before they are encoded; None for nothing. It raises ValueError with the field."""
    return _Converters(_before_encoding).of(schema)


class _Converters:
    """Makes the converters of a schema's parts; `leaf` knows those of types that hold no others."""

    def __init__(self, leaf: Callable[[Mapping[str, Any]], Convert | None]) -> None:
        self._leaf = leaf
        self._named: dict[str, Convert | None] = {}

    def of(self, schema: Any) -> Convert | None:  # noqa: ANN401, PLR0911 - JSON; one return per kind of type
        match schema:
            case [*branches]:
                return self._union(branches)
            case {"type": "record", "name": str(name), "fields": [*fields]}:
                return self._record(name, fields)
            case {"type": "array", "items": items}:
                return _each_item(self.of(items))
            case {"type": "map", "values": values}:
                return _each_value(self.of(values))
            case str(name) if name in self._named:
                return lambda value: self._apply(name, value)
            case str(name):
                return self._leaf({"type": name})
            case {"type": _}:
                return self._leaf(schema)
            case _:
                return None

    def _apply(self, name: str, value: object) -> object:
        convert = self._named[name]
        return value if convert is None else convert(value)

    def _union(self, branches: list[object]) -> Convert | None:
        """Of a union of null and one type alone: of others nobody can tell which one a value is of."""
        rest = [branch for branch in branches if branch != "null"]
        inner = self.of(rest[0]) if len(rest) == 1 else None
        return None if inner is None else lambda value: None if value is None else inner(value)

    def _record(self, name: str, fields: list[Any]) -> Convert | None:
        # A field may be of the record's own type.
        self._named[name] = None
        found = {field["name"]: self.of(field["type"]) for field in fields}
        convert = _fields({field: inner for field, inner in found.items() if inner is not None})
        self._named[name] = convert
        return convert


def _each_item(inner: Convert | None) -> Convert | None:
    return None if inner is None else lambda values: [inner(value) for value in values]


def _each_value(inner: Convert | None) -> Convert | None:
    return None if inner is None else lambda given: {key: inner(value) for key, value in given.items()}


def _fields(converters: Mapping[str, Convert]) -> Convert | None:
    if not converters:
        return None

    def convert(record: object) -> object:
        if not isinstance(record, Mapping):
            return record
        changed = dict(record)
        for field, inner in converters.items():
            if field in changed:
                try:
                    changed[field] = inner(changed[field])
                except ValueError as error:
                    text = f"{field}: {error}"
                    raise ValueError(text) from error
        return changed

    return convert


def _after_decoding(schema: Mapping[str, Any]) -> Convert | None:
    if schema.get("logicalType") == "decimal" and not schema.get("scale"):
        return lambda value: int(value) if isinstance(value, Decimal) else value
    return None


def _before_encoding(schema: Mapping[str, Any]) -> Convert | None:
    if schema.get("logicalType") == "decimal" and not schema.get("scale"):
        return lambda value: Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if schema.get("logicalType") in _MOMENTS:
        return _with_zone
    return _within_float if schema.get("type") == "float" else None


def _with_zone(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        text = f"{value} has no time zone, and the schema wants a moment"
        raise ValueError(text)
    return value


def _within_float(value: object) -> object:
    if isinstance(value, float) and isfinite(value) and abs(value) >= _FLOAT_MAX:
        text = f"no 32-bit float holds {value!r}"
        raise ValueError(text)
    return value
