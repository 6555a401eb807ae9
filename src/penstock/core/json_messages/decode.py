"""Flat JSON messages back to row changes, all of one table and one schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows
from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.json_messages.fields import (
    BEFORE,
    BEFORE_LACKS,
    FRONT,
    LACKS,
    OP,
    POSITION,
    ROW,
    SERVER_ID,
    SOURCE,
    TABLE,
    TRANSACTION,
    TS_MS,
)
from penstock.core.json_messages.values import JSON_VALUE_ERRORS, json_values
from penstock.core.positions import parse_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags
    from penstock.core.tables import Column, TableSchema

Fields: TypeAlias = "Mapping[str, Any]"

_Width = TypeVar("_Width", np.int32, np.int64)

_HINT: Final = "let only Penstock write to this topic, or read it from an offset after the foreign messages"
_OPS: Final = frozenset(op.value for op in Op)
_DIGITS_MAX: Final = 10
_OLD: Final = frozenset({Op.DELETE.value, Op.UPDATE.value})


class _Image(NamedTuple):
    """A row, and the columns that it has no values of."""

    fields: Fields
    lacks: Sequence[str]


def json_schema_id(message: bytes) -> int | None:
    """Return the id of the schema of a message, None for one that is no JSON of ours."""
    if not message.startswith(FRONT):
        return None
    digits = message[len(FRONT) : len(FRONT) + _DIGITS_MAX + 1].partition(b",")[0]
    return int(digits) if digits.isdigit() else None


def decode_json_changes(schema: TableSchema, values: pa.BinaryArray) -> DecodedChanges:
    """Decode messages (binary[n]) of `schema`. Raises CorruptLogError, with the index of the first bad one."""
    messages = _parse(schema, values)
    befores = [_before(message) for message in messages]
    afters = [None if message[OP] == Op.DELETE else _top(message) for message in messages]
    places = _places(messages)
    return DecodedChanges(
        op=_strings([message[OP] for message in messages], OP),
        before=_rows(schema, befores),
        has_before=_present(befores),
        after=_rows(schema, afters),
        has_after=_present(afters),
        source=_strings([message.get(SOURCE) for message in messages], SOURCE),
        file=_strings([file for file, _ in places], POSITION),
        pos=_integers([offset for _, offset in places], POSITION, np.int64),
        row=_integers([message.get(ROW) for message in messages], ROW, np.int32),
        ts_ms=_integers([message.get(TS_MS) for message in messages], TS_MS, np.int64),
        gtid=_strings([message.get(TRANSACTION) or "" for message in messages], TRANSACTION),
        db=pa.array([schema.table.schema] * len(messages), pa.string()),
        table=pa.array([schema.table.name] * len(messages), pa.string()),
        before_lacks=_lacking(befores),
        after_lacks=_lacking(afters),
        server_id=_integers([message.get(SERVER_ID) for message in messages], SERVER_ID, np.int64),
    )


def decode_json_rows(schema: TableSchema, values: pa.BinaryArray) -> DecodedRows:
    """Decode of each message one row alone, that which is not below a field of ours; else as `decode_json_changes`."""
    messages = _parse(schema, values)
    images = [_top(message) for message in messages]
    places = _places(messages)
    return DecodedRows(
        op=_strings([message[OP] for message in messages], OP),
        rows=_rows(schema, images),
        is_before=np.array([message[OP] == Op.DELETE for message in messages], np.bool_),
        source=_strings([message.get(SOURCE) for message in messages], SOURCE),
        file=_strings([file for file, _ in places], POSITION),
        pos=_integers([offset for _, offset in places], POSITION, np.int64),
        row=_integers([message.get(ROW) for message in messages], ROW, np.int32),
        ts_ms=_integers([message.get(TS_MS) for message in messages], TS_MS, np.int64),
        lacks=_lacking(images),
    )


def _parse(schema: TableSchema, values: pa.BinaryArray) -> list[Fields]:
    table = str(schema.table)
    messages = [_parse_one(table, index, value) for index, value in enumerate(values.to_pylist())]
    for index, message in enumerate(messages):
        if LACKS in message or BEFORE in message or BEFORE_LACKS in message:
            _require_images(schema, index, message)
    return messages


def _parse_one(table: str, index: int, value: bytes | None) -> Fields:
    try:
        message = _DECODER.decode((value or b"").decode())
    except ValueError as error:
        _refuse(index, f"is no JSON: {error}")
    except RecursionError:
        _refuse(index, "is nested too deep")
    if not isinstance(message, dict):
        _refuse(index, "is no JSON object")
    op, named = message.get(OP), message.get(TABLE)
    if not isinstance(op, str) or op not in _OPS:
        _refuse(index, f"has no operation in {OP}")
    if named != table:
        _refuse(index, f"is of table {named if isinstance(named, str) else 'none'}, and its schema of {table}")
    return message


def _require_images(schema: TableSchema, index: int, message: Fields) -> None:
    """Refuse a message whose images are of another shape; those that lack columns are of tables that may."""
    columns = {column.name for column in schema.columns}
    for name, may_lack in ((LACKS, columns.difference(schema.key)), (BEFORE_LACKS, columns)):
        lacks = message.get(name, [])
        if not isinstance(lacks, list) or not all(isinstance(each, str) and each in may_lack for each in lacks):
            _refuse(index, f"names in {name} what no row can lack")
        if lacks and not schema.partial_rows:
            _refuse(index, f"has {name}, and its schema is of whole rows")
    if not isinstance(message.get(BEFORE, {}), dict):
        _refuse(index, f"has no row in {BEFORE}")


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is no value of JSON"
    raise ValueError(message)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all messages: to make it takes longer than to use it."""


def _top(message: Fields) -> _Image:
    return _Image(message, message.get(LACKS, ()))


def _before(message: Fields) -> _Image | None:
    if message[OP] not in _OLD:
        return None
    return _top(message) if message[OP] == Op.DELETE else _Image(message.get(BEFORE, {}), message.get(BEFORE_LACKS, ()))


def _rows(schema: TableSchema, images: Sequence[_Image | None]) -> pa.RecordBatch:
    """Return one row for each image, null where there is none, and in what it lacks."""
    whole = [image.fields for image in images if image is not None and not image.lacks]
    is_whole = len(whole) == len(images)
    columns = [_whole_column(column, whole) if is_whole else None for column in schema.columns]
    arrays = [
        _column(column, images) if array is None else array
        for column, array in zip(schema.columns, columns, strict=True)
    ]
    nullable = pa.schema([field.with_nullable(nullable=True) for field in arrow_schema(schema)])
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


def _whole_column(column: Column, rows: Sequence[Fields]) -> ArrowArray | None:
    """Return the values of rows that all have one, by the short way; None where `_column` must say what is wrong."""
    try:
        values = [row[column.name] for row in rows]
        return None if not column.nullable and None in values else json_values(values, column.type)
    except (KeyError, *JSON_VALUE_ERRORS):
        return None


def _column(column: Column, images: Sequence[_Image | None]) -> ArrowArray:
    name = column.name
    values: list[object] = []
    for index, image in enumerate(images):
        if image is None or name in image.lacks:
            values.append(None)
        elif name not in image.fields:
            _refuse(index, f"has no value of {name}, and does not say so")
        elif image.fields[name] is None and not column.nullable:
            _refuse(index, f"has NULL in {name}, which cannot be NULL")
        else:
            values.append(image.fields[name])
    try:
        return json_values(values, column.type)
    except JSON_VALUE_ERRORS:
        for index, value in enumerate(values):
            _read_alone(index, column, value)
        raise


def _read_alone(index: int, column: Column, value: object) -> None:
    try:
        json_values([value], column.type)
    except JSON_VALUE_ERRORS as error:
        _refuse(index, f"has a value of {column.name} that its type cannot have: {error}")


def _present(images: Sequence[_Image | None]) -> Flags:
    return np.array([image is not None for image in images], np.bool_)


def _lacking(images: Sequence[_Image | None]) -> pa.StringArray:
    names = [json.dumps(list(image.lacks)) if image is not None and image.lacks else "" for image in images]
    return pa.array(names, pa.string())


def _strings(found: Sequence[object], name: str) -> pa.StringArray:
    if set(map(type, found)) - {str}:
        _refuse(next(index for index, text in enumerate(found) if type(text) is not str), f"has no text in {name}")
    try:
        return pa.array(found, pa.string())
    except UnicodeEncodeError:
        # Half of a pair of surrogates, which JSON can write and UTF-8 cannot.
        broken = next(index for index, text in enumerate(found) if not _is_utf8(str(text)))
        _refuse(broken, f"has a text in {name} that is none of UTF-8")


def _is_utf8(text: str) -> bool:
    return text == text.encode(errors="replace").decode()


def _integers(found: Sequence[Any], name: str, width: type[_Width]) -> np.ndarray[tuple[int, ...], np.dtype[_Width]]:
    if set(map(type, found)) - {int}:
        _refuse(
            next(index for index, number in enumerate(found) if type(number) is not int), f"has no integer in {name}"
        )
    limits = np.iinfo(width)
    if found and not (limits.min <= min(found) and max(found) <= limits.max):
        index = next(index for index, number in enumerate(found) if not limits.min <= number <= limits.max)
        _refuse(index, f"has a number in {name} that has more than {limits.bits} bits")
    return np.array(found, width)


def _places(messages: Sequence[Fields]) -> list[tuple[str, int]]:
    places = []
    for index, message in enumerate(messages):
        try:
            places.append(parse_place(str(message.get(POSITION))))
        except ValueError as error:
            _refuse(index, f"has no position in {POSITION}: {error}")
    return places


def _refuse(index: int, fault: str) -> NoReturn:
    reason = f"message {index} of a topic of JSON messages {fault}"
    raise CorruptLogError(reason, _HINT)
