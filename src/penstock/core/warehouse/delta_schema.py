"""A Delta table's columns as its log has them, and how they change without a rewrite of files.

The log's action `metaData` holds the schema as JSON. With column mapping by
name, a column has an id and a physical name, under which files have it: so a
rename, a drop and a column without a value in old files are changes of that
JSON alone. With type widening, so are some changes of a type.

Source: Delta transaction log protocol, "Schema Serialization Format", "Column
Mapping" and "Type Widening".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.core.tables import taken_names
from penstock.core.warehouse.columns import own_columns
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import render_type
from penstock.core.warehouse.fill_values import render_fill_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import Column, ColumnType, TableSchema
    from penstock.core.warehouse.load_plan import Deletes

_TYPES: Final = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_INTEGERS: Final = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Integer types, narrow ones first, and the digits before the point that a decimal needs to widen one."""
_FEATURES: Final = {"timestamp_ntz": "delta.feature.timestampNtz"}
"""What a table's protocol has to name before it has a column of the type: Delta does so itself in new tables alone."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def delta_type(type_: ColumnType) -> object:
    """Return the type as the log's JSON has it; ValueError, which says why, where Delta has none."""
    name = render_type(DELTA, type_)
    if name.startswith("ARRAY"):
        return {"type": "array", "elementType": "float", "containsNull": True}
    return _TYPES.get(name) or name.lower().replace(" ", "")


def changes_in_log_alone(before: TableSchema, after: TableSchema) -> bool:
    """Whether the table for `before` becomes that for `after` without a new file; it is a change that can be made."""
    kept = {column.name.casefold(): column for column in before.columns}
    return all(_is_light(kept.get(column.name.casefold()), column) for column in after.columns)


def amend_metadata(
    metadata: str, renames: Sequence[tuple[str, str]], after: TableSchema, deletes: Deletes = "hard"
) -> str:
    """Return the action `metaData`, JSON, of a table whose columns get other names (old, new) and become `after`'s.

    Columns that `after` has not go, but for the target's own, which it then has: those of a
    change log, and that of soft deletes.
    """
    action = json.loads(metadata)
    meta = action["metaData"]
    schema = json.loads(meta["schemaString"])
    new_names, taken = dict(renames), taken_names(renames)
    fields = [field for field in schema["fields"] if field["name"].casefold() not in taken]
    for field in fields:
        field["name"] = new_names.get(field["name"], field["name"])
    ours = own_columns(after, deletes)
    wanted = {column.name.casefold(): column for column in (*after.columns, *ours)}
    there = {field["name"].casefold() for field in fields}
    kept = [field for field in fields if field["name"].casefold() in wanted]
    for field in kept:
        _amend_field(field, wanted[field["name"].casefold()], meta["configuration"])
    kept += [_new_field(column, meta["configuration"]) for name, column in wanted.items() if name not in there]
    meta["schemaString"] = json.dumps(schema | {"fields": kept})
    meta["description"] = after.comment or None
    return json.dumps(action)


def _is_light(old: Column | None, column: Column) -> bool:
    if old is None:
        try:
            return render_fill_value(DELTA, column) == "NULL"
        except ValueError:
            return False
    return _widens_in_place(delta_type(old.type), delta_type(column.type))


def _widens_in_place(old: object, new: object) -> bool:
    if old == new or (old, new) in {("float", "double"), ("date", "timestamp_ntz")}:
        return True
    after = _DECIMAL.fullmatch(str(new))
    if old in _INTEGERS and new in _INTEGERS:
        order = list(_INTEGERS)
        return order.index(str(old)) < order.index(str(new))
    if old in _INTEGERS and after:
        return int(after[1]) - int(after[2]) >= _INTEGERS[str(old)]
    before = _DECIMAL.fullmatch(str(old))
    if not (before and after):
        return False
    more_scale = int(after[2]) - int(before[2])
    return 0 <= more_scale <= int(after[1]) - int(before[1])


def _amend_field(field: dict[str, Any], column: Column, configuration: dict[str, str]) -> None:
    field["name"] = column.name
    _set_comment(field, column)
    type_ = delta_type(column.type)
    if field["type"] != type_:
        change = {"fromType": field["type"], "toType": type_}
        field["metadata"]["delta.typeChanges"] = [*field["metadata"].get("delta.typeChanges", []), change]
        field["type"] = type_
        configuration["delta.enableTypeWidening"] = "true"
        _allow(type_, configuration)


def _allow(type_: object, configuration: dict[str, str]) -> None:
    if str(type_) in _FEATURES:
        configuration[_FEATURES[str(type_)]] = "supported"


def _new_field(column: Column, configuration: dict[str, str]) -> dict[str, Any]:
    """A column without id and physical name: Delta gives it new ones."""
    field: dict[str, Any] = {"name": column.name, "type": delta_type(column.type), "nullable": True, "metadata": {}}
    _set_comment(field, column)
    _allow(field["type"], configuration)
    return field


def _set_comment(field: dict[str, Any], column: Column) -> None:
    field["metadata"].pop("comment", None)
    if column.comment:
        field["metadata"]["comment"] = column.comment
