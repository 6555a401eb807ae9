"""Planning a join: its output's columns and key, and what is kept of each input's rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import value_schema
from penstock.core.errors import UsageError
from penstock.core.joins.identity import equal_places, identifying_places, is_identified
from penstock.core.joins.inputs import require_joinable
from penstock.core.tables import TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.joins.identity import Place
    from penstock.core.joins.inputs import JoinInput, JoinOutput
    from penstock.core.tables import Column

INPUTS_MAX = 30


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """What is kept of the rows of an input: the columns `stored`, and the two keys.

    `remembered`: the row's key does not tell its join key, so that is remembered
    for each row.
    """

    name: str
    join_keys: tuple[str, ...]
    row_key: tuple[str, ...]
    stored: TableSchema
    remembered: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a join is made. `origins` says of each column of `output` which stored column it is: (input, number).

    `is_declared_key` says that the key is the one that the file declares; else it is
    made of the inputs' keys, for which `kept` names the fields that are in the output
    only for that.
    """

    inputs: tuple[PlannedInput, ...]
    output: TableSchema
    origins: tuple[tuple[int, int], ...]
    is_declared_key: bool
    kept: tuple[str, ...]

    @property
    def remembered(self) -> int:
        """A bit for each input whose join keys are remembered."""
        return sum(1 << index for index, each in enumerate(self.inputs) if each.remembered)

    @property
    def digest(self) -> str:
        """Equal for plans that can go on with each other's state."""
        said = [[list(each.join_keys), list(each.row_key), value_schema(each.stored)] for each in self.inputs]
        text = json.dumps([said, list(self.origins), value_schema(self.output)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the output, and the columns that have its value; the first one is taken."""

    name: str
    places: tuple[Place, ...]


def plan_join(inputs: Sequence[JoinInput], output: JoinOutput) -> JoinPlan:
    """Plan a join. Raises UsageError for one that cannot be made as it is said."""
    require_joinable(inputs)
    fields = _fields(inputs)
    declared = [_declared(inputs, fields, name) for name in output.key]
    is_declared = is_identified(inputs, [place for field in declared for place in field.places])
    kept: list[_Field] = []
    key = declared if is_declared else _own_key(inputs, fields, kept)
    every = [*fields, *kept]
    columns = tuple(_column(inputs, field) for field in every)
    _require_key_values(columns, [field.name for field in key])
    table = TableSchema(output.table, columns, tuple(dict.fromkeys(field.name for field in key)), output.doc)
    planned = tuple(_planned(index, each, every) for index, each in enumerate(inputs))
    stored = [[column.name for column in each.stored.columns] for each in planned]
    origins = tuple((i, stored[i].index(name)) for i, name in (field.places[0] for field in every))
    return JoinPlan(planned, table, origins, is_declared, tuple(field.name for field in kept))


def _fields(inputs: Sequence[JoinInput]) -> list[_Field]:
    """The fields of the output in the order of the inputs; join keys that have one name are one field."""
    found: dict[str, _Field] = {}
    for index, given in enumerate(inputs):
        for column in given.table.columns:
            if column.name in given.exclude:
                continue
            name, place = given.named(column.name), (index, column.name)
            taken = found.get(name)
            if taken is None:
                found[name] = _Field(name, (place,))
            elif place in equal_places(inputs, taken.places[0]):
                found[name] = _Field(name, (*taken.places, place))
            else:
                other = inputs[taken.places[0][0]]
                message = f"{other.name}.{taken.places[0][1]} and {given.name}.{column.name} are both called {name}"
                raise UsageError(message, "give one of them another name in aliases, or exclude it in exclude_fields")
    if not found:
        message = "every field of every input is excluded: nothing is left for the output"
        raise UsageError(message, "leave a field out of exclude_fields")
    return list(found.values())


def _declared(inputs: Sequence[JoinInput], fields: Sequence[_Field], name: str) -> _Field:
    """The field that a pkey of the file means: by its name in the output, or by that in its input."""
    for field in fields:
        if field.name == name:
            return field
    for field in fields:
        if any(column == name for _, column in field.places):
            return field
    is_excluded = any(name in each.exclude for each in inputs)
    message = f"pkey {name} is not in the output" + (": it is excluded" if is_excluded else "")
    raise UsageError(message, f"the output has: {', '.join(field.name for field in fields)}")


def _own_key(inputs: Sequence[JoinInput], fields: Sequence[_Field], kept: list[_Field]) -> list[_Field]:
    """The inputs' keys as fields; what is not in the output is added to `kept`."""
    key: list[_Field] = []
    taken = {field.name for field in fields}
    for place in identifying_places(inputs):
        same = equal_places(inputs, place)
        field = next((each for each in [*fields, *kept] if each.places[0] in same), None)
        if field is None:
            index, column = place
            name = inputs[index].named(column)
            while name in taken:
                name = f"{inputs[index].table.table.name}_{name}"
            field = _Field(name, (place,))
            taken.add(name)
            kept.append(field)
        key.append(field)
    return key


def _column(inputs: Sequence[JoinInput], field: _Field) -> Column:
    """A column of the output, which says where it comes from. A join key is never null there."""
    index, name = field.places[0]
    column = inputs[index].table.column(name)
    origin = "from " + " = ".join(f"{inputs[i].name}.{each}" for i, each in field.places)
    is_join_key = name in inputs[index].join_keys
    return replace(
        column,
        name=field.name,
        nullable=column.nullable and not is_join_key,
        declaration=column.declaration.partition(" GENERATED ALWAYS AS (")[0],
        default=None,
        default_is_expression=False,
        comment=f"{column.comment} ({origin})" if column.comment else origin,
    )


def _require_key_values(columns: Sequence[Column], key: Sequence[str]) -> None:
    for column in columns:
        if column.name in key and column.nullable:
            message = f"pkey {column.name} can be null, and a key cannot"
            raise UsageError(message, "leave it out of pkey, or make the column NOT NULL in its source")


def _planned(index: int, given: JoinInput, fields: Sequence[_Field]) -> PlannedInput:
    wanted = {field.places[0][1] for field in fields if field.places[0][0] == index}
    columns = tuple(column for column in given.table.columns if column.name in wanted)
    # A table of its own, so that what the source says of the rest makes no other state.
    stored = TableSchema(TableId("state", f"input{index}"), tuple(replace(c, comment="") for c in columns), ())
    is_told = set(given.join_keys) <= set(given.table.key)
    return PlannedInput(given.name, given.join_keys, given.table.key, stored, not is_told)
