"""A changed file on the state that there is: what is kept stays, and what the output shows of it changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.avro.column_types import avro_type
from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.avro_types import parse_avro
from penstock.core.compatibility import mutual_problems
from penstock.core.errors import UsageError
from penstock.core.joins.plan import with_needed
from penstock.core.tables import TableSchema
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.joins.plan import JoinPlan, PlannedInput
    from penstock.core.tables import Column

REBUILD: Final = (
    "put the file back as it was, give the output another `source` to make it beside this one, "
    "or have it made again from its topics: penstock joinery rebuild FILE JOIN"
)


@dataclass(frozen=True, slots=True)
class MadeJoin:
    """What a state keeps and what was published of it.

    `basis` is equal for plans that keep rows under the same keys. `stored` are the
    columns that are kept of each input, in the order of their bytes. `fields` are those
    of the output, each with the input and the column that it is, and `key` its key.
    """

    basis: str
    stored: tuple[tuple[str, ...], ...]
    fields: tuple[tuple[str, int, str], ...]
    key: tuple[str, ...]

    def to_mapping(self) -> dict[str, object]:
        """It as JSON values."""
        return {
            "basis": self.basis,
            "stored": [list(names) for names in self.stored],
            "fields": [list(field) for field in self.fields],
            "key": list(self.key),
        }

    @classmethod
    def from_mapping(cls, made: Mapping[str, object]) -> MadeJoin:
        """Read it back; KeyError or ValueError if it is not one of ours."""
        stored, fields, key = made["stored"], made["fields"], made["key"]
        if not (isinstance(stored, list) and isinstance(fields, list) and isinstance(key, list)):
            message = "a position record of a join without what it keeps"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            str(made["basis"]),
            tuple(tuple(str(name) for name in names) for names in stored),
            tuple((str(name), int(index), str(column)) for name, index, column in fields),
            tuple(str(name) for name in key),
        )

    @property
    def place_of(self) -> Mapping[str, tuple[int, str]]:
        """Which column of which input each field is."""
        return {name: (index, column) for name, index, column in self.fields}


def made_join(plan: JoinPlan) -> MadeJoin:
    """What a state of `plan` keeps, and what is published of it."""
    fields = tuple(
        (column.name, index, plan.inputs[index].stored.columns[number].name)
        for column, (index, number) in zip(plan.output.columns, plan.origins, strict=True)
    )
    stored = tuple(tuple(column.name for column in each.stored.columns) for each in plan.inputs)
    return MadeJoin(_basis(plan.inputs), stored, fields, plan.output.key)


def fit_plan(plan: JoinPlan, tables: Sequence[TableSchema], made: MadeJoin) -> JoinPlan:
    """The plan of a changed file on the state that `made` tells of; `tables` are the inputs, with the schemas of then.

    What is not in the output any more is kept all the same. Raises UsageError where
    that state does not do: other join keys, keys or conditions, or a field that was not
    in the output before, of which rows that were published know nothing.
    """
    if _basis(plan.inputs) != made.basis:
        reason = "its inputs, their join keys, keys, types or conditions are others"
        raise _unfit(reason)
    fresh = made_join(plan)
    if [fresh.place_of[name] for name in fresh.key] != [made.place_of[name] for name in made.key]:
        reason = "the output has another key"
        raise _unfit(reason)
    before, after = _fields_of(plan, made), _fields_of(plan, fresh)
    added = [name for field, name in after.items() if field not in before]
    if added:
        reason = f"{', '.join(added)} was not in the output, and the rows there lack it"
        raise _unfit(reason)
    inputs = []
    for given, table, names in zip(plan.inputs, tables, made.stored, strict=True):
        columns = tuple(replace(table.column(name), comment="") for name in names)
        inputs.append(with_needed(replace(given, stored=TableSchema(given.stored.table, columns, ())), table))
    origins = tuple((index, made.stored[index].index(column)) for _, index, column in fresh.fields)
    return replace(plan, inputs=tuple(inputs), origins=origins)


def widen_plan(plan: JoinPlan, since: Sequence[Sequence[Mapping[str, Column]]]) -> JoinPlan:
    """The plan with the types that columns have got `since`: of each input, in order, by their names in the plan.

    Only wider ones, whose values are the same bytes in a state: what is kept is read as before. A column that is
    narrower again stays as wide as it was: values of then may be in the state.
    """
    inputs = tuple(
        replace(
            given,
            stored=replace(given.stored, columns=_widened(given.stored.columns, columns)),
            tested=_widened(given.tested, columns),
            needed=_widened(given.needed, columns),
        )
        for given, columns in zip(plan.inputs, since, strict=True)
    )
    sources = (inputs[index].stored.columns[number] for index, number in plan.origins)
    shown = (
        column if column.type == source.type else replace(column, type=source.type, declaration=source.declaration)
        for column, source in zip(plan.output.columns, sources, strict=True)
    )
    return replace(plan, inputs=inputs, output=replace(plan.output, columns=tuple(shown)))


def _widened(columns: tuple[Column, ...], since: Sequence[Mapping[str, Column]]) -> tuple[Column, ...]:
    for now in since:
        columns = tuple(_wider(column, now.get(column.name, column)) for column in columns)
    return columns


def _wider(was: Column, now: Column) -> Column:
    if was.type == now.type or avro_type(was.type) != avro_type(now.type) or not widens(was.type, now.type):
        return was
    return replace(was, type=now.type, declaration=now.declaration.partition(" GENERATED ALWAYS AS (")[0])


def stays_in_topic(output: TableSchema, before: Sequence[str]) -> bool:
    """Whether an output may go on in the topic that has messages of the schemas `before` (JSON texts).

    The registry decides so, too: each schema reads what the others wrote, exactly, and the key is the same.
    """
    new = parse_avro(value_schema(output))
    return all(table_schema(text).key == output.key and not mutual_problems(new, parse_avro(text)) for text in before)


def column_renames(plan: JoinPlan, made: MadeJoin) -> tuple[tuple[str, str], ...]:
    """The fields of the output that have another name than before: old and new."""
    before, after = _fields_of(plan, made), _fields_of(plan, made_join(plan))
    pairs = ((before[field], name) for field, name in after.items() if field in before)
    return tuple((old, new) for old, new in pairs if old != new)


def _fields_of(plan: JoinPlan, made: MadeJoin) -> Mapping[tuple[int, str, bool], str]:
    """The fields by which column of which input they are, and whether they stand in for it; the key is that of `plan`.

    A column of the key that may have no match is two fields, of which either may be excluded.
    """
    stand_ins = {name for name, own in zip(made.key, plan.output.key, strict=True) if own in plan.stand_ins}
    return {(index, column, name in stand_ins): name for name, index, column in made.fields}


def _basis(inputs: Sequence[PlannedInput]) -> str:
    said = [
        [
            *(each.join_keys, each.row_key, each.remembered, each.is_optional, each.keeps_nulls, each.where),
            [(column.name, repr(column.type)) for column in each.tested],
            *(["partial"] if each.is_partial else []),
            *([["padded", *each.padded]] if each.padded else []),
        ]
        for each in inputs
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _unfit(reason: str) -> UsageError:
    message = f"the file of the join was changed, and its state is of the join as it was: {reason}"
    return UsageError(message, REBUILD)
