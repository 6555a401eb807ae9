"""In which way two shapes of one table differ, in words."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.tables import Column, TableSchema


def describe_difference(found: TableSchema | None, told: TableSchema, where: str) -> str:
    """Say how `found`, the table as it is in `where`, differs from what was told; "" for equal ones."""
    if found is None:
        return f"{where} has no such table"
    return "; ".join(_differences(found, told, where))


def _differences(found: TableSchema, told: TableSchema, where: str) -> Iterator[str]:
    here, there = ({column.name: column for column in schema.columns} for schema in (found, told))
    yield from (f"column {name} is not in {where}" for name in there if name not in here)
    yield from (f"column {name} is only in {where}" for name in here if name not in there)
    common = [name for name in there if name in here]
    yield from (_column_difference(here[name], there[name], where) for name in common if here[name] != there[name])
    if here.keys() == there.keys() and list(here) != list(there):
        yield f"the columns of {where} are in the order {', '.join(here)}"
    if found.key != told.key:
        yield f"the primary key of {where} is ({', '.join(found.key)}), not ({', '.join(told.key)})"
    if found.comment != told.comment:
        yield f"the table's comment in {where} is another"
    if found.partial_rows != told.partial_rows:
        yield "row_images of the source was another"


def _column_difference(here: Column, there: Column, where: str) -> str:
    if here.declaration != there.declaration:
        return f"column {here.name} is {here.declaration} in {where}, not {there.declaration}"
    names = [field.name for field in fields(here) if getattr(here, field.name) != getattr(there, field.name)]
    values = [f"{name} {getattr(here, name)!r}, not {getattr(there, name)!r}" for name in names]
    return f"column {here.name} of {where} has {', '.join(values)}"
