"""What has to be done to values of Avro records that the codec alone would change, or hand over in a strange type.

A decimal without fraction digits is an int: so are unsigned 64-bit integers in a
table's rows. What the codec would write otherwise than it is given is refused:
see `exact_leaves`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from penstock.core.spolts.exact_leaves import Convert, exact_leaf
from penstock.core.spolts.union_branches import Branch, in_union

_Choose: TypeAlias = Callable[[object, Sequence[Branch]], object]


def decoded_values(schema: object) -> Convert | None:
    """What to do to values that were decoded with a schema that fastavro has parsed; None for nothing."""
    return _Converters(_after_decoding).of(schema)


def encodable_values(schema: object) -> Convert | None:
    """What to do to values before they are encoded; None for nothing. It raises ValueError with the field."""
    return _Converters(exact_leaf, in_union).of(schema)


class _Converters:
    """Makes the converters of a schema's parts; `leaf` knows those of types that hold no others.

    `choose` says what a value of a union is that has several types; without it nobody does.
    """

    def __init__(self, leaf: Callable[[Mapping[str, Any]], Convert | None], choose: _Choose | None = None) -> None:
        self._leaf = leaf
        self._choose = choose
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
        rest = [Branch(branch, self.of(branch)) for branch in branches if branch != "null"]
        if len(rest) == 1:
            inner = rest[0].convert
            return None if inner is None else lambda value: None if value is None else inner(value)
        choose = self._choose
        if choose is None or not any(branch.convert for branch in rest):
            return None
        return lambda value: None if value is None else choose(value, rest)

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
