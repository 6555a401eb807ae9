"""What a link does to columns on their way into its target, and that it goes on doing it.

A column that gets another name is treated as under its old one, and so are the
columns of a table that gets another name, also once the table begins anew. A column of which rows are in the target
is never treated in another way from then on: that would mix values with their
hashes, make two rows of one key, or show what was hidden. Such a table stops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import pyarrow as pa

from penstock.core.errors import TableStoppedError
from penstock.core.files import LACKS
from penstock.core.transforms.column_history import PLAIN, ColumnHistory
from penstock.core.transforms.columns import DropColumns
from penstock.core.transforms.hashes import HashColumns, Salt
from penstock.core.transforms.masks import Blank, FixedValue, KeepLast, MaskColumns
from penstock.core.transforms.transform import suggest

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_patterns import ColumnPatterns
    from penstock.core.transforms.transform import Transform

_WHERE: Final = "the link's columns"
_BACK: Final = (
    "give the link the `columns` and the salt that it had; for others, load a new target: "
    "another `pipeline` name, `home` and target"
)
_RIGHT_NAME: Final = (
    "correct the name; if the column has another one by now, write that one; only if the table has no such column now, "
    "under any name, end the pattern with *"
)


@dataclass(frozen=True, slots=True)
class Drop:
    """The column does not come."""


Action: TypeAlias = Drop | Salt | Blank | FixedValue | KeepLast


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What is done to the columns that `patterns` match: a Salt hashes them with it."""

    patterns: ColumnPatterns
    action: Action


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is done to rows of `arriving`, of which `schema` is made, by `steps`. Pickles."""

    arriving: TableSchema
    schema: TableSchema
    steps: tuple[Transform, ...]

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return `rows`, laid out as files of `arriving`, as rows laid out as files of `schema`."""
        schema = self.arriving
        if schema.partial_rows and len(self.schema.columns) < len(schema.columns):
            rows = _without_flags(schema, self.schema, rows)
        for step in self.steps:
            schema, rows = step.apply(schema, rows)
        return rows


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The rules of a link: of those that match a column, the first one holds."""

    rules: tuple[ColumnRule, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.rules)

    def begin(self, schema: TableSchema, past: ColumnHistory) -> tuple[Treatment, ColumnHistory]:
        """Do as `treat` for a table that begins, or begins anew, without rows; `past` is what was known of it, if any.

        Its columns may be treated in another way than before, but not as if they had never had
        their former names. Raises TableStoppedError, too, if a rule names, without wildcards, what no
        column is or was called: a misspelled name must not let the column through as it is. And where
        a column may be one that was hidden, under a name of which the target was not told.
        """
        self._require_known(schema, past)
        treatment, begun = self.treat(schema, past.begun_anew())
        self._require_all_names(schema, past, begun)
        return treatment, begun

    def treat(self, schema: TableSchema, history: ColumnHistory) -> tuple[Treatment, ColumnHistory]:
        """Return what is done to rows of `schema`, and what is known of the table once they are in.

        Raises TableStoppedError where a rule does not fit a column, or a column of
        `history` would be treated in another way than before.
        """
        actions = {column.name: self._action(schema, column.name, history) for column in schema.columns}
        labels = {name.casefold(): _label(action) for name, action in actions.items()}
        for name, action in actions.items():
            before = history.treated.get(name.casefold(), labels[name.casefold()])
            if before != _label(action):
                raise _changed(schema, name, before, _label(action))
        treated, steps = schema, _steps(actions)
        for step in steps:
            treated = step.derive(treated)
        return Treatment(schema, treated, steps), replace(history, treated=labels)

    def _require_known(self, schema: TableSchema, past: ColumnHistory) -> None:
        columns, known = [column.name for column in schema.columns], _names(schema, past)
        for rule in self.rules:
            for pattern, column in rule.patterns.exact(schema.table):
                if column.casefold() not in known:
                    reason = f"they name {pattern}, and the table has no such column{suggest(column, columns)}"
                    raise TableStoppedError(str(schema.table), column, _WHERE, reason, _RIGHT_NAME)

    def _require_all_names(self, schema: TableSchema, past: ColumnHistory, begun: ColumnHistory) -> None:
        known = _names(schema, past)
        for hidden, label in past.treated.items():
            if label == PLAIN or hidden in known or self._action(schema, hidden, past) is None:
                continue
            for column in (each.name for each in schema.columns if begun.treated[each.name.casefold()] == PLAIN):
                is_told = any(rule.patterns.leave_out(schema.table, column) for rule in self.rules)
                if column.casefold() not in past.treated and not is_told:
                    raise _unsure(schema, column, hidden, label)

    def _action(self, schema: TableSchema, column: str, history: ColumnHistory) -> Action | None:
        names = list(history.names(schema.table, column))
        for rule in self.rules:
            if any(rule.patterns.matches(*name) for name in names):
                return rule.action
        return None


def _steps(actions: dict[str, Action | None]) -> tuple[Transform, ...]:
    """Masks and hashes, then what goes. Columns with one action are treated together."""
    steps: list[Transform] = []
    for action in dict.fromkeys(actions.values()):
        columns = tuple(name for name, other in actions.items() if other == action)
        match action:
            case Salt():
                steps.append(HashColumns(columns, action))
            case Blank() | FixedValue() | KeepLast():
                steps.append(MaskColumns(columns, action))
            case Drop() | None:
                pass
            case _:
                assert_never(action)
    dropped = tuple(name for name, action in actions.items() if isinstance(action, Drop))
    return (*steps, DropColumns(dropped)) if dropped else tuple(steps)


def _label(action: Action | None) -> str:
    """Say what a target must know of a treatment. A mask may become another one: it never was the value."""
    match action:
        case None:
            return PLAIN
        case Drop():
            return "drop"
        case Salt():
            return f"hash {action.fingerprint}"
        case _:
            return "mask"


def _changed(schema: TableSchema, column: str, before: str, now: str) -> TableStoppedError:
    if before.startswith("hash ") and now.startswith("hash "):
        reason = "its hashes in the target were made with another salt"
    else:
        reason = f"so far it was {_words(before)} in the target, and now it would be {_words(now)}"
    return TableStoppedError(str(schema.table), column, _WHERE, reason, _BACK)


def _unsure(schema: TableSchema, column: str, hidden: str, label: str) -> TableStoppedError:
    reason = (
        f"no rule matches it, and it may be {hidden} under another name, which was {_words(label)} in the target "
        "and is gone from the table"
    )
    name = f"{schema.table.dotted}.{column}"
    hint = (
        f'if it is, give the link a rule for {name}; if all may see it, write "!{name}" beside the pattern for {hidden}'
    )
    return TableStoppedError(str(schema.table), column, _WHERE, reason, hint)


def _names(schema: TableSchema, history: ColumnHistory) -> set[str]:
    """Return every name that a column of `schema` has or had, in lower case."""
    return {name.casefold() for each in schema.columns for _, name in history.names(schema.table, each.name)}


def _words(label: str) -> str:
    said = {PLAIN: "as it is", "drop": "dropped", "mask": "masked"}
    return said.get(label, "hashed")


def _without_flags(arriving: TableSchema, kept: TableSchema, rows: pa.Table) -> pa.Table:
    """Leave out what `LACKS` says of columns that go: it has one character per column."""
    names = {column.name for column in kept.columns}
    at = [index for index, column in enumerate(arriving.columns) if column.name in names]
    found = rows.column(LACKS).combine_chunks().dictionary_encode()
    texts = ["".join(text[index] for index in at) if text else text for text in found.dictionary.to_pylist()]
    flags = pa.array(texts, pa.string()).take(found.indices)
    return rows.set_column(rows.schema.get_field_index(LACKS), LACKS, flags)
