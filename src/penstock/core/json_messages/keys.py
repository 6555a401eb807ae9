"""Keys of flat JSON messages back to the columns of a key, all of one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from penstock.core.errors import CorruptLogError
from penstock.core.json_messages.values import JSON_VALUE_ERRORS, json_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.tables import Column


def decode_json_keys(columns: Sequence[Column], keys: pa.BinaryArray) -> pa.RecordBatch:
    """Decode what `encode_json_keys` wrote for a key of `columns` (binary[n]).

    Raises CorruptLogError, with the index of the first bad one.
    """
    names = [column.name for column in columns]
    rows = [_parse(index, key, names) for index, key in enumerate(keys.to_pylist())]
    arrays: list[Any] = []
    for column in columns:
        values = [row[column.name] for row in rows]
        try:
            arrays.append(json_values(values, column.type))
        except JSON_VALUE_ERRORS:
            for index, value in enumerate(values):
                _read_alone(index, column, value)
            raise
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _parse(index: int, key: bytes | None, names: Sequence[str]) -> Mapping[str, Any]:
    if key is None:
        _refuse(index, "is not there")
    try:
        row = json.loads(key.decode())
    except ValueError as error:
        _refuse(index, f"is no JSON: {error}")
    except RecursionError:
        _refuse(index, "is nested too deep")
    if not isinstance(row, dict) or row.keys() != set(names) or None in row.values():
        _refuse(index, f"does not have one value each of {', '.join(names)}")
    return row


def _read_alone(index: int, column: Column, value: object) -> None:
    try:
        json_values([value], column.type)
    except JSON_VALUE_ERRORS as error:
        _refuse(index, f"has a value of {column.name} that its type cannot have: {error}")


def _refuse(index: int, fault: str) -> NoReturn:
    reason = f"message {index} is a tombstone, by whose key no row can be deleted: it {fault}"
    raise CorruptLogError(reason, "let only Penstock write to this topic")
