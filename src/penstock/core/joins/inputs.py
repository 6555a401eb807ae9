"""What a join's file says, with the tables that its inputs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.joins.keys import comparable_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A stream of changes of `table`. `name` is its topic's; `aliases` are pairs of a column's name and its new one.

    An input `is_optional` if the others are joined without it where it has no match (LEFT
    JOIN). Of its rows, only those are there that `where` holds for, if it is not empty.
    One that `is_step` is made by a join of the same file.
    """

    name: str
    table: TableSchema
    join_keys: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    is_optional: bool = False
    where: str = ""
    is_step: bool = False

    def named(self, column: str) -> str:
        """What a column is called in the output."""
        return dict(self.aliases).get(column, column)


@dataclass(frozen=True, slots=True)
class JoinOutput:
    """The table that a join makes. `key` are the columns that its file calls the primary key."""

    table: TableId
    key: tuple[str, ...]
    doc: str = ""


def require_joinable(inputs: Sequence[JoinInput]) -> None:
    """Raise UsageError for inputs that cannot be joined."""
    for each in inputs:
        _require_stream(each)
    first = inputs[0]
    if first.is_optional:
        message = f"{first.name} stands first and has type: left, and there is nothing on its left"
        raise UsageError(
            message, "put type: left on the streams that may have no match, not on the one that has all rows"
        )
    for other in inputs[1:]:
        if len(other.join_keys) != len(first.join_keys):
            message = (
                f"{first.name} has {len(first.join_keys)} join keys and {other.name} has {len(other.join_keys)}: "
                "all inputs of a join are joined by the same keys"
            )
            hint = "give every input as many join_keys; an input that has others says left_keys"
            raise UsageError(message, hint)
        for left, right in zip(first.join_keys, other.join_keys, strict=True):
            _require_comparable(first, left, other, right)


def _require_stream(given: JoinInput) -> None:
    names = [column.name for column in given.table.columns]
    if not given.table.key:
        message = f"{given.name} has no primary key, so changes of its rows cannot be matched"
        raise UsageError(message, f"give {given.table.table} a primary key in its source")
    for key, wanted in (
        ("join_keys", given.join_keys),
        ("exclude_fields", given.exclude),
        ("aliases", tuple(old for old, _ in given.aliases)),
    ):
        for name in wanted:
            if name not in names and given.is_step and key == "join_keys":
                message = f"left_keys names {name}, and no stream above has a field of that name in the output"
                raise UsageError(message, f"the fields there are: {', '.join(names)}")
            if name not in names:
                message = f"{given.name} has no field {name}, which its {key} names"
                raise UsageError(message, f"its fields are: {', '.join(names)}")
    for name in given.join_keys:
        if comparable_kind(given.table.column(name).type) is None:
            message = f"{given.name}.{name} cannot be a join key: values of its type are not compared exactly"
            raise UsageError(message, "join by whole numbers, decimals, text, bytes, dates or times")


def _require_comparable(first: JoinInput, left: str, other: JoinInput, right: str) -> None:
    kinds = [comparable_kind(each.table.column(name).type) for each, name in ((first, left), (other, right))]
    if kinds[0] != kinds[1]:
        message = f"{first.name}.{left} ({kinds[0]}) and {other.name}.{right} ({kinds[1]}) cannot be compared"
        raise UsageError(message, "choose join_keys of one kind, or change the type of a column in its source")
