"""What a message's value says of a change: an envelope, as Avro has it, or flat JSON of a source that writes that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.core.avro.names import avro_name
from penstock.core.avro.schemas import AFTER_LACKS, BEFORE_LACKS
from penstock.core.changes import Op
from penstock.core.json_messages import fields as flat

Record: TypeAlias = Mapping[str, Any]
"""A decoded record: field to value. What the values are, only the topic's schema knows, hence Any."""

_OPS: Final = frozenset(Op)


@dataclass(frozen=True, slots=True)
class RowImages:
    """The rows of a change without the columns that the log lacks, which are named; None where there is no row."""

    op: str
    before: Record | None
    after: Record | None
    before_lacks: tuple[str, ...] = ()
    after_lacks: tuple[str, ...] = ()

    @property
    def row(self) -> Record | None:
        """The row as it is now, or, for a delete, as it last was."""
        return self.before if self.after is None else self.after

    @property
    def lacks(self) -> tuple[str, ...]:
        """What `row` lacks."""
        return self.before_lacks if self.after is None else self.after_lacks


def row_images(value: object) -> RowImages | None:
    """The rows of a change; None for a value that is no change."""
    if not isinstance(value, dict):
        return None
    if value.get("op") in _OPS and "before" in value and "after" in value:
        before_lacks, after_lacks = (_lacking(value.get(field)) for field in (BEFORE_LACKS, AFTER_LACKS))
        before, after = _without(value["before"], before_lacks), _without(value["after"], after_lacks)
        return RowImages(str(value["op"]), before, after, before_lacks, after_lacks)
    if is_flat(value):
        return _flat_images(value)
    return None


def is_flat(value: Record) -> bool:
    """Whether a value is a change of a source that writes flat JSON."""
    return flat.SCHEMA in value and value.get(flat.OP) in _OPS


def with_row_images(value: Record, before: Record | None, after: Record | None) -> dict[str, Any]:
    """Return a change with other rows, which still lack what they lacked if they do not have it.

    ValueError for a flat change without the row that it is about.
    """
    return _with_flat(value, before, after) if is_flat(value) else _with_enveloped(value, before, after)


def _flat_images(value: Record) -> RowImages:
    op = value[flat.OP]
    row = {name: content for name, content in value.items() if not name.startswith(flat.PREFIX)}
    lacks = tuple(value.get(flat.LACKS, ()))
    if op == Op.DELETE:
        return RowImages(op, row, None, lacks)
    if op == Op.UPDATE:
        return RowImages(op, value.get(flat.BEFORE, {}), row, tuple(value.get(flat.BEFORE_LACKS, ())), lacks)
    return RowImages(op, None, row, (), lacks)


def _with_flat(value: Record, before: Record | None, after: Record | None) -> dict[str, Any]:
    is_delete = value[flat.OP] == Op.DELETE
    row = before if is_delete else after
    if row is None:
        text = f"a change with {flat.OP} {value[flat.OP]} has a row {'before' if is_delete else 'after'} it"
        raise ValueError(text)
    told = {name: content for name, content in value.items() if name.startswith(flat.PREFIX)}
    told[flat.LACKS] = [name for name in value.get(flat.LACKS, ()) if name not in row]
    if flat.BEFORE in told:
        told[flat.BEFORE] = before
        told[flat.BEFORE_LACKS] = [name for name in value.get(flat.BEFORE_LACKS, ()) if name not in (before or {})]
    for name in (flat.LACKS, flat.BEFORE_LACKS, flat.BEFORE):
        if name in told and (told[name] is None or told[name] == []):
            del told[name]
    return {**told, **row}


def _with_enveloped(value: Record, before: Record | None, after: Record | None) -> dict[str, Any]:
    made = {**value}
    for image, row, field in (("before", before, BEFORE_LACKS), ("after", after, AFTER_LACKS)):
        left = [] if row is None else [name for name in _lacking(value.get(field)) if name not in row]
        made[image] = None if row is None else {**dict.fromkeys(left), **row}
        if field in made:
            named = json.loads(made[field] or "[]")
            made[field] = json.dumps([name for name in named if avro_name(name) in left]) if left else None
    return made


def _without(row: Record | None, lacks: tuple[str, ...]) -> Record | None:
    return {name: value for name, value in row.items() if name not in lacks} if row and lacks else row


def _lacking(named: str | None) -> tuple[str, ...]:
    """The columns that an envelope says a row lacks, as the row would call them."""
    return tuple(map(avro_name, json.loads(named))) if named else ()
