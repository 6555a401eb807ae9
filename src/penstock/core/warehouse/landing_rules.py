"""What a landing zone makes of a table's rows on their way into the public table: a filter, and converted columns.

The expressions are Snowflake's SQL over a row with its types. A public table has the
rows for which the filter is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UsageError
from penstock.core.warehouse.columns import stopped
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from penstock.core.patterns import TablePatterns
    from penstock.core.tables import TableSchema

TREATED: Final = "AS penstock_treated"
"""What stands in every merge whose rows are treated, and in no other."""
LACKS: Final = '"__penstock_lacks"'
"""The column of rows to be treated that is 1 where a message lacks a value: a rule would take it for NULL."""
_LACKING: Final = (
    "a change lacks values that the sink's rule may need: let the source log whole rows, then type: "
    "penstock snapshot FILE TABLE --full-refresh; op "
)
_OURS: Final = "__penstock"
_OF_A_SELECT: Final = frozenset({"kind", "expressions"})
_YET: Final = "A column that is still to come can be named once it is there"
_HINT: Final = "write one expression over the table's columns, with their names in double quotes as the source has them"


@dataclass(frozen=True, slots=True)
class ZoneRule:
    """What is done to rows of the tables that match: `where` is "" for no filter, `columns` are names with expressions.

    A column that the source has is converted. Any other is new; its expression is a
    CAST, whose type it has.
    """

    patterns: TablePatterns
    where: str = ""
    columns: tuple[tuple[str, str], ...] = ()

    def require_for(self, schema: TableSchema) -> None:
        """Raise TableStoppedError where the rule does not fit a table's columns."""
        there = {column.name for column in schema.columns}
        folded = {name.casefold() for name in there}
        for text in (self.where, *(value for _, value in self.columns)):
            if unknown := sorted(read_columns(text) - there):
                reason = f"the sink's rule names {unknown[0]}, which is no column of it: {text}"
                raise stopped(schema, "", reason, f'{_HINT}: "{min(there)}". {_YET}')
        for name, text in self.columns:
            reason = ""
            if name in schema.key:
                reason = "the sink's rule converts it, and rows are merged by it"
            elif name not in there and name.casefold() in folded:
                reason = "the sink's rule makes it, and the table has one whose name differs only in case"
            elif name not in there and not new_type(text):
                reason = f"the sink's rule makes it, and does not say its type: {text}"
            if reason:
                raise stopped(schema, name, reason, "convert another column, or make a new one: CAST(... AS VARCHAR)")

    def require_free(self, before: TableSchema, after: TableSchema) -> None:
        """Raise TableStoppedError where the source adds a column of the name of one that the rule makes."""
        for name in self.new_columns(before).keys() - self.new_columns(after).keys():
            path = quote_name(SNOWFLAKE, after.table.schema, after.table.name)
            drop = f"ALTER TABLE {path} DROP COLUMN {quote_name(SNOWFLAKE, name)}"
            hint = f"make it by another name, or not at all, in the sink's `tables`; then run in Snowflake: {drop}"
            raise stopped(after, name, "the source adds it, and the sink's rule makes one of that name", hint)

    def new_columns(self, schema: TableSchema) -> Mapping[str, str]:
        """Return the columns that the source has not, with their types."""
        there = {column.name for column in schema.columns}
        return {name: new_type(text) for name, text in self.columns if name not in there}

    def treat(self, schema: TableSchema, source: str) -> str:
        """Return the query for treated rows of `source`, which has the table's columns and the row's op.

        A row that the filter does not want is deleted, in case it is there. A table of partial rows also has `LACKS`:
        a row that lacks a value is judged by nobody, and the query fails.
        """
        converted = dict(self.columns)
        names = [column.name for column in schema.columns]
        op = f'"{_OURS}_op"'
        # It fails by not being a truth value, which the error names; with the row's op nothing computes it ahead.
        fails = f"WHEN {LACKS} = 1 THEN CAST(CAST({quote_text(_LACKING, SNOWFLAKE)} || {op} AS BOOLEAN) AS VARCHAR)"
        judged = [fails] if schema.partial_rows else []
        judged += [f"WHEN ({self.where}\n) THEN {op} ELSE 'd' END"] if self.where else [f"ELSE {op} END"]
        selected = [f"CASE {' '.join(judged)} AS {op}" if schema.partial_rows or self.where else op]
        wanted = f"{op} <> 'd'" + (f" AND ({self.where}\n)" if self.where else "")
        for name in (*names, *self.new_columns(schema)):
            quoted = quote_name(SNOWFLAKE, name)
            # The line's end ends a comment, too. What is not wanted need not fit.
            value = f"CASE WHEN {wanted} THEN ({converted[name]}\n) END AS {quoted}" if name in converted else quoted
            selected.append(value)
        return f"SELECT {', '.join(selected)} FROM ({source}) {TREATED}"  # noqa: S608 - names are quoted


@dataclass(frozen=True, slots=True)
class ColumnFound:
    """A column as INFORMATION_SCHEMA has it; None where it says nothing. Times have their precision left out."""

    type: str
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    def __str__(self) -> str:
        """As a type is written."""
        numbers = [self.length] if self.type == "TEXT" else [self.precision, self.scale]
        listed = ", ".join(str(number) for number in numbers if number is not None)
        return f"{'VARCHAR' if self.type == 'TEXT' else self.type}{f'({listed})' if listed else ''}"

    def is_made_by(self, text: str) -> bool:
        """Whether a column of a type, as SQL writes it, is like this one; also where nobody can tell."""
        wanted = _found(text)
        if wanted is None or wanted.type != self.type:
            return wanted is None
        pairs = ((wanted.precision, self.precision), (wanted.scale, self.scale), (wanted.length, self.length))
        return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _found(text: str) -> ColumnFound | None:
    """Return what INFORMATION_SCHEMA has for a type; None for one of no other name there."""
    from sqlglot import errors, exp  # noqa: PLC0415 - slow to import, and few sinks have rules

    try:
        type_ = exp.DataType.build(text, dialect="snowflake")
    except errors.SqlglotError:
        return None
    numbers = [int(each.name) for each in type_.expressions if each.name.isdigit()]
    kinds = exp.DataType.Type
    if type_.is_type(*exp.DataType.INTEGER_TYPES):
        return ColumnFound("NUMBER", 38, 0)
    if type_.is_type(kinds.DECIMAL):
        precision, scale = (*numbers, *(38, 0)[len(numbers) :])
        return ColumnFound("NUMBER", precision, scale)
    if type_.is_type(*exp.DataType.TEXT_TYPES):
        without = 1 if type_.is_type(kinds.CHAR, kinds.NCHAR) else None
        return ColumnFound("TEXT", length=numbers[0] if numbers else without)
    names = {
        "FLOAT": (kinds.FLOAT, kinds.DOUBLE),
        "BINARY": (kinds.BINARY, kinds.VARBINARY),
        "TIMESTAMP_NTZ": (kinds.TIMESTAMPNTZ, kinds.DATETIME),
        "TIMESTAMP_LTZ": (kinds.TIMESTAMPLTZ,),
        "TIMESTAMP_TZ": (kinds.TIMESTAMPTZ,),
        **{kind.name: (kind,) for kind in (kinds.BOOLEAN, kinds.DATE, kinds.TIME, kinds.VARIANT, kinds.ARRAY)},
    }
    return next((ColumnFound(name) for name, types in names.items() if type_.is_type(*types)), None)


def new_type(text: str) -> str:
    """Return the type that an expression is cast to, "" where it is no CAST."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import, and few sinks have rules

    parsed = _parsed(text)
    while isinstance(parsed, exp.Paren):
        parsed = parsed.this
    return parsed.to.sql(dialect="snowflake") if isinstance(parsed, exp.Cast) else ""


def read_columns(text: str) -> set[str]:
    """Return the columns that an expression reads, as Snowflake knows them. UsageError for what is no expression."""
    from sqlglot import exp  # noqa: PLC0415 - as above

    if not text:
        return set()
    found = set()
    for column in _parsed(text).find_all(exp.Column):
        if column.table:
            message = f"the expression names a table, {column.sql(dialect='snowflake')}: {text}"
            raise UsageError(message, _HINT)
        found.add(column.name if column.this.quoted else column.name.upper())
    return found


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> exp.Expression:
    """Read one expression of one row. Raises UsageError for what is more."""
    import sqlglot  # noqa: PLC0415 - as above
    from sqlglot import errors, exp  # noqa: PLC0415

    try:
        statements = sqlglot.parse(f"SELECT ({text}\n)", read="snowflake")
    except errors.SqlglotError as error:
        message = f"the expression is not understood: {text}: {str(error).splitlines()[0]}"
        raise UsageError(message, _HINT) from error
    select = statements[0] if len(statements) == 1 else None
    listed = select.expressions if isinstance(select, exp.Select) else []
    is_one = isinstance(select, exp.Select) and len(listed) == 1 and isinstance(listed[0], exp.Paren)
    more = () if select is None else (value for name, value in select.args.items() if name not in _OF_A_SELECT)
    if (
        not is_one
        or any(more)
        or listed[0].find(exp.Alias, exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Parameter, exp.Placeholder)
    ):
        message = f"the expression is more than one value of a row: {text}"
        raise UsageError(message, _HINT)
    value: exp.Expression = listed[0].this
    return value
