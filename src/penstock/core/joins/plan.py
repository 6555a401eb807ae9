"""Planning a join: its output's columns and key, and what is kept of each input's rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import value_schema
from penstock.core.errors import UsageError
from penstock.core.joins.filters import tested_columns
from penstock.core.joins.identity import equal_places, identifying_places, is_identified
from penstock.core.joins.inputs import require_joinable
from penstock.core.joins.stand_ins import require_stand_in, stand_in_text
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
    for each row. `is_optional`: where it has no match, it counts as one row of nulls.
    `keeps_nulls`: a row with a null in its join key matches nothing, and is joined all
    the same. `tested` are the columns that the condition `where` asks for. `needed` are
    all that the join reads of a row, where rows may come without some of them: such rows
    are made whole first (see core/joins/completing.py). Empty where all rows are whole.
    `padded` are join keys whose values come with blanks that do not count.
    """

    name: str
    join_keys: tuple[str, ...]
    row_key: tuple[str, ...]
    stored: TableSchema
    remembered: bool
    is_optional: bool = False
    keeps_nulls: bool = False
    where: str = ""
    tested: tuple[Column, ...] = ()
    needed: tuple[Column, ...] = ()
    padded: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether its rows may lack columns."""
        return bool(self.needed)

    @property
    def read_columns(self) -> frozenset[str]:
        """All that the join reads of a row."""
        kept = (column.name for column in (*self.stored.columns, *self.tested))
        return frozenset((*self.join_keys, *self.row_key, *kept))


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a join is made. `origins` says of each column of `output` which stored column it is: (input, number).

    `is_declared_key` says that the key is the one that the file declares; else it is
    made of the inputs' keys, for which `kept` names the fields that are in the output
    only for that. `stand_ins` are the fields of the key that have zero, or nothing, for
    null (see core/joins/stand_ins.py).
    """

    inputs: tuple[PlannedInput, ...]
    output: TableSchema
    origins: tuple[tuple[int, int], ...]
    is_declared_key: bool
    kept: tuple[str, ...]
    stand_ins: tuple[str, ...] = ()

    @property
    def remembered(self) -> int:
        """A bit for each input whose join keys are remembered."""
        return sum(1 << index for index, each in enumerate(self.inputs) if each.remembered)

    @property
    def optional(self) -> int:
        """A bit for each input that need not match."""
        return sum(1 << index for index, each in enumerate(self.inputs) if each.is_optional)

    @property
    def partial(self) -> int:
        """A bit for each input whose rows may lack columns."""
        return sum(1 << index for index, each in enumerate(self.inputs) if each.is_partial)

    @property
    def keeps_more(self) -> bool:
        """Whether columns are kept that are not in the output: they were, when the state was begun."""
        return len(set(self.origins)) < sum(len(each.stored.columns) for each in self.inputs)

    @property
    def digest(self) -> str:
        """Equal for plans that can go on with each other's state."""
        said = [
            [list(each.join_keys), list(each.row_key), value_schema(each.stored), *_semantics(each)]
            for each in self.inputs
        ]
        text = json.dumps([said, list(self.origins), value_schema(self.output)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the output, and the columns that have its value; the first one is taken.

    One that `stands_in` has zero, or nothing, where that is null.
    """

    name: str
    places: tuple[Place, ...]
    stands_in: bool = False


def _semantics(given: PlannedInput) -> list[str]:
    """What an input says that plain ones do not."""
    partial = [json.dumps(["partial", *(column.name for column in given.needed)])] if given.is_partial else []
    where = [f"where {given.where}"] if given.where else []
    padded = [json.dumps(["padded", *given.padded])] if given.padded else []
    return [*(["left"] if given.is_optional else []), *where, *partial, *padded]


def plan_join(inputs: Sequence[JoinInput], output: JoinOutput) -> JoinPlan:
    """Plan a join. Raises UsageError for one that cannot be made as it is said."""
    require_joinable(inputs)
    fields = _fields(inputs)
    declared = [_declared(inputs, fields, name) for name in output.key]
    is_declared = is_identified(inputs, [place for field in declared for place in field.places])
    kept: list[_Field] = []
    if is_declared:
        key = [_never_null(inputs, field, fields, kept) for field in declared]
    else:
        key = _own_key(inputs, fields, kept)
    every = [*fields, *kept]
    columns = tuple(_column(inputs, field) for field in every)
    _require_key_values(columns, [field.name for field in key])
    table = TableSchema(output.table, columns, tuple(dict.fromkeys(field.name for field in key)), output.doc)
    planned = tuple(_planned(inputs, index, every) for index in range(len(inputs)))
    stored = [[column.name for column in each.stored.columns] for each in planned]
    origins = tuple((i, stored[i].index(name)) for i, name in (field.places[0] for field in every))
    stand_ins = tuple(field.name for field in kept if field.stands_in)
    return JoinPlan(planned, table, origins, is_declared, tuple(field.name for field in kept), stand_ins)


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
            elif taken.places[0] in equal_places(inputs, place):
                # What may have no match goes behind what always has the value.
                found[name] = _Field(name, (place, *taken.places))
            else:
                raise _both_called(inputs, taken.places[0], place, name)
    names: dict[str, _Field] = {}
    for field in found.values():
        alike = names.setdefault(field.name.casefold(), field)
        if alike is not field:
            # Targets take them for one column.
            raise _both_called(inputs, alike.places[0], field.places[0], f"{alike.name}, or {field.name}")
    if not found:
        message = "every field of every input is excluded: nothing is left for the output"
        raise UsageError(message, "leave a field out of exclude_fields")
    return list(found.values())


def _both_called(inputs: Sequence[JoinInput], first: Place, second: Place, name: str) -> UsageError:
    one, other = (f"{inputs[index].name}.{column}" for index, column in (first, second))
    message = f"{one} and {other} are both called {name}"
    return UsageError(message, "give one of them another name in aliases, or exclude it in exclude_fields")


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
    return [
        _telling(inputs, place, [*fields, *kept]) or _keep(inputs, place, fields, kept)
        for place in identifying_places(inputs)
    ]


def _telling(inputs: Sequence[JoinInput], place: Place, fields: Sequence[_Field]) -> _Field | None:
    """The field that has, or tells, the value of a key's column, and is never null."""
    for field in fields:
        first = field.places[0]
        if place in equal_places(inputs, first) and not _can_be_null(inputs, first):
            return field
    return None


def _keep(inputs: Sequence[JoinInput], place: Place, fields: Sequence[_Field], kept: list[_Field]) -> _Field:
    """A field for a column, added to `kept`, that is never null if the column is not."""
    index, column = place
    taken = {field.name.casefold() for field in [*fields, *kept]}
    is_optional = inputs[index].is_optional
    if is_optional:
        require_stand_in(inputs[index], column)
    name = f"{inputs[index].named(column)}_key" if is_optional else inputs[index].named(column)
    while name.casefold() in taken:
        name = f"{inputs[index].table.table.name}_{name}"
    kept.append(_Field(name, (place,), stands_in=is_optional))
    return kept[-1]


def _never_null(inputs: Sequence[JoinInput], field: _Field, fields: Sequence[_Field], kept: list[_Field]) -> _Field:
    """A field of a declared key, or the one that stands in for it where its input has no match."""
    index, name = field.places[0]
    if inputs[index].is_optional and not inputs[index].table.column(name).nullable:
        return _keep(inputs, field.places[0], fields, kept)
    return field


def _can_be_null(inputs: Sequence[JoinInput], place: Place) -> bool:
    """Whether a column can be null in a joined row. Join keys that have matched are not."""
    index, name = place
    given = inputs[index]
    is_matched = name in given.join_keys and not _keeps_nulls(inputs, index)
    return given.is_optional or (given.table.column(name).nullable and not is_matched)


def _keeps_nulls(inputs: Sequence[JoinInput], index: int) -> bool:
    """Whether an input's rows are joined though a null in their join key matches nothing: as SQL has it."""
    return index == 0 and all(each.is_optional for each in inputs[1:])


def _column(inputs: Sequence[JoinInput], field: _Field) -> Column:
    """A column of the output, which says where it comes from."""
    index, name = field.places[0]
    column = inputs[index].table.column(name)
    origin = "from " + " = ".join(f"{inputs[i].name}.{each}" for i, each in field.places)
    if field.stands_in:
        origin += f", or {stand_in_text(column.type)} without a match"
    elif inputs[index].is_step and column.comment:
        # A join of the same file made it, and said where it comes from.
        origin = ""
    comment = f"{column.comment} ({origin})" if column.comment and origin else column.comment or origin
    return replace(
        column,
        name=field.name,
        nullable=not field.stands_in and _can_be_null(inputs, field.places[0]),
        declaration=column.declaration.partition(" GENERATED ALWAYS AS (")[0],
        default=None,
        default_is_expression=False,
        comment=comment,
    )


def _require_key_values(columns: Sequence[Column], key: Sequence[str]) -> None:
    for column in columns:
        if column.name in key and column.nullable:
            message = f"pkey {column.name} can be null, and a key cannot"
            raise UsageError(message, "leave it out of pkey, or make the column NOT NULL in its source")


def _planned(inputs: Sequence[JoinInput], index: int, fields: Sequence[_Field]) -> PlannedInput:
    given = inputs[index]
    wanted = {field.places[0][1] for field in fields if field.places[0][0] == index}
    columns = tuple(column for column in given.table.columns if column.name in wanted)
    # A table of its own, so that what the source says of the rest makes no other state.
    stored = TableSchema(TableId("state", f"input{index}"), tuple(replace(c, comment="") for c in columns), ())
    planned = PlannedInput(
        given.name,
        given.join_keys,
        given.table.key,
        stored,
        remembered=not set(given.join_keys) <= set(given.table.key),
        is_optional=given.is_optional,
        keeps_nulls=_keeps_nulls(inputs, index),
        where=given.where,
        tested=tested_columns(given),
        padded=tuple(name for name in given.join_keys if given.table.column(name).is_padded),
    )
    return with_needed(planned, given.table)


def with_needed(given: PlannedInput, table: TableSchema) -> PlannedInput:
    """Add what the join reads of rows of `table`, if they may lack columns."""
    if not table.partial_rows:
        return given
    needed = (column for column in table.columns if column.name in given.read_columns)
    return replace(given, needed=tuple(replace(column, comment="") for column in needed))
