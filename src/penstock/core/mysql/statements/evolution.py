"""Which changes of a table can be carried on without reading its existing rows again.

The rule: what a reader has of every existing row, adapted to the new schema
without looking at the source, must be what the source has now.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.core.charset_sizes import has_characters
from penstock.core.errors import READ_AGAIN
from penstock.core.mysql.statements.describe import is_system_versioned
from penstock.core.mysql.statements.sql_session import NO_ZERO_NUMBERS, PAD_CHAR, STRICT
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER
from penstock.core.refusals import Refusal
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableSchema

_READ_ANEW = f"existing rows must be read anew, even if the change is undone: {READ_AGAIN}"
_COUNTS_CHARACTERS = re.compile(r"(?:var)?char", re.IGNORECASE)
_DIGITS = re.compile(r"\(\s*\d+\s*,\s*\d+\s*\)")


def refusal(before: TableSchema, after: TableSchema, sql_mode: int = 0) -> Refusal | None:
    """Return why `before` cannot become `after` without a new copy, None if it can.

    Another primary key knows the same rows, so it can; targets see to it that none
    is there twice. Narrower types cannot: the source may round or cut existing
    values, and says so to nobody but who changes the type. A renamed column looks
    like one that was dropped and another that was added: give `before` its new
    names first, see `find_column_renames`. `sql_mode` is that of the session that
    changed the table. A column that becomes NOT NULL is carried in strict mode, the
    default: there the source refuses that while there are NULLs.
    """
    if not before.key and not after.key and is_system_versioned(before) != is_system_versioned(after):
        return Refusal("", "it keeps its history no more, or begins to, so that rows came or went", _READ_ANEW)
    if before.key != after.key and (reason := _key_reason(before, after)):
        keys = [", ".join(table.key) or "none" for table in (before, after)]
        return Refusal("", f"its primary key changed from ({keys[0]}) to ({keys[1]}), {reason}", _READ_ANEW)
    old = {column.name: column for column in before.columns}
    for column in after.columns:
        was = old.get(column.name)
        found = (
            _added(column) if was is None else _session_refusal(was, column, sql_mode) or _column_refusal(was, column)
        )
        if found:
            return found
    return _computed_anew(before, after)


def refusal_of_types(before: TableSchema, after: TableSchema) -> Refusal | None:
    """Return what of `refusal` shows without the log: of columns that kept their name and not the source's type."""
    old = {column.name: column for column in before.columns}
    for column in after.columns:
        was = old.get(column.name)
        if was is not None and was.declaration != column.declaration and (found := _column_refusal(was, column)):
            return found
    return None


def refusal_of_return(
    before: TableSchema, after: TableSchema, drops: Sequence[str], renames: Sequence[tuple[str, str]]
) -> Refusal | None:
    """Return why a column that one statement drops and adds cannot be carried: it looks as if nothing had happened.

    `drops` and `renames` are as the statement has them. A dropped column whose name another one got is no such.
    """
    there = {column.name.casefold() for column in before.columns} - {new.casefold() for _, new in renames}
    back = there.intersection(map(str.casefold, drops))
    for column in after.columns:
        if column.name.casefold() in back:
            return Refusal(column.name, "one statement dropped it and added it again, with other values", _READ_ANEW)
    return None


def refusal_of_numbers(before: TableSchema, after: TableSchema, sql_mode: int) -> Refusal | None:
    """Return which column a statement made AUTO_INCREMENT, if rows can have got numbers by it."""
    old = {column.name: column for column in before.columns}
    for column in after.columns:
        was = old.get(column.name)
        if was is None or was.is_auto_increment or not column.is_auto_increment:
            continue
        if was.nullable or not sql_mode & NO_ZERO_NUMBERS:
            reason = "it became AUTO_INCREMENT, and the source gives numbers to the rows that have 0 or NULL"
            hint = "change it so while it is NOT NULL, with NO_AUTO_VALUE_ON_ZERO in sql_mode: then no row gets one"
            return Refusal(column.name, reason, f"{hint}; {_READ_ANEW}")
    return None


def find_column_renames(
    before: TableSchema, after: TableSchema, written: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...] | Refusal:
    """Return which columns of `before` got which names of `after`, by what a statement says: (old, new), as typed.

    So did one whose name is spelled anew, as MODIFY does. A Refusal where statement and table do not agree.
    """
    old_names = {column.name.casefold(): column.name for column in before.columns}
    new_names = {column.name.casefold(): column.name for column in after.columns}
    found = []
    for old, new in written:
        was, is_now = old_names.get(old.casefold()), new_names.get(new.casefold())
        if was is None and (is_now is None or new.casefold() in old_names):
            # IF EXISTS, of a column that is not there.
            continue
        if was is None or is_now is None:
            reason = f"its column {old!r} got the name {new!r}, and it had or has no such column"
            return Refusal(new, reason, _READ_ANEW)
        found.append((was, is_now))
    return (*found, *_spelled_anew(before, after, found))


def _spelled_anew(
    before: TableSchema, after: TableSchema, found: Sequence[tuple[str, str]]
) -> Sequence[tuple[str, str]]:
    """Return the columns that got the name they had in other letters, great for small, which `found` does not say."""
    old_names = {column.name for column in before.columns}
    new_names = {column.name for column in after.columns}
    gone = {name.casefold(): name for name in old_names - new_names - {old for old, _ in found}}
    come = [column.name for column in after.columns if column.name not in old_names | {new for _, new in found}]
    return [(gone[name.casefold()], name) for name in come if name.casefold() in gone]


def _key_reason(before: TableSchema, after: TableSchema) -> str:
    """Say why another key makes other rows of a table's rows; "" if it does not."""
    if is_system_versioned(before) != is_system_versioned(after):
        return "because rows of its history came or went"
    if before.partial_rows or after.partial_rows:
        return "and rows that lack columns are known by it"
    return ""


def _computed_anew(before: TableSchema, after: TableSchema) -> Refusal | None:
    """What became of the generated columns whose expression is as it was, but reads a column that is not."""
    old = {column.name: column for column in before.columns}
    changed = [c for c in after.columns if c.name in old and not _reads_alike(old[c.name], c)]
    for column in after.columns:
        for other in changed:
            if column.name in old and column.may_read(other.name):
                shown = f"from {_shown(old[other.name], other)} to {_shown(other, old[other.name])}"
                reason = f"it is computed from {other.name}, which changed {shown}"
                return Refusal(column.name, reason, _READ_ANEW)
    return None


def _reads_alike(before: Column, after: Column) -> bool:
    """Whether an expression surely makes the same of a column's values as before: of 1.5 and 1.500 it may not."""
    was, now = before.declaration.lower(), after.declaration.lower()
    old, new, sorts_alike = before.type, after.type, before.collation == after.collation
    if (old, was) == (new, now):
        return sorts_alike
    match old, new:
        case IntegerType(), IntegerType():
            return old.unsigned == new.unsigned and "zerofill" not in was + now
        case DecimalType(), DecimalType():
            return old.scale == new.scale and "zerofill" not in was + now
        case TextType(), TextType():
            return old.charset == new.charset and sorts_alike
        case (EnumType(), EnumType()) | (SetType(), SetType()) | (BytesType(), BytesType()):
            return sorts_alike
        case _:
            return False


def _added(column: Column) -> Refusal | None:
    if isinstance(column.type, UnsupportedType):
        reason = f"the new column is {column.type.declaration}, a type that cannot be carried"
        return Refusal(column.name, reason, f"give the column another type, then {READ_AGAIN}; or leave the table out")
    if column.filled is not None:
        return None
    if column.default_is_expression:
        reason = "the new column's value in existing rows is computed by the source, so that nobody else knows it"
        return Refusal(column.name, reason, f"add columns with a constant default or as NULL. Now {_READ_ANEW}")
    if not column.nullable and column.default is None:
        zero = "0000-00-00" if isinstance(column.type, DateType | DateTimeType | TimestampType) else ""
        reason = (
            f"the new column is NOT NULL and has no default, and existing rows got {zero or 'what nobody else knows'}"
        )
        hint = f"add columns with a constant default or as NULL{', or set `zero_dates` of the source' if zero else ''}"
        return Refusal(column.name, reason, f"{hint}. Now {_READ_ANEW}")
    return None


def _session_refusal(before: Column, after: Column, sql_mode: int) -> Refusal | None:
    """What the session that changed a column did to existing values, whatever the types."""
    was_char, is_char = (column.declaration.lower().startswith("char") for column in (before, after))
    if was_char and not is_char and sql_mode & PAD_CHAR:
        reason = "it is CHAR no more, and PAD_CHAR_TO_FULL_LENGTH in sql_mode had the source keep the padding"
        return Refusal(after.name, reason, f"change such columns without that mode; {_READ_ANEW}")
    return _null_refusal(before, after, sql_mode)


def _null_refusal(before: Column, after: Column, sql_mode: int) -> Refusal | None:
    """What became of the NULLs of a column that is NOT NULL now, if there can have been any."""
    if not before.nullable or after.nullable:
        return None
    if isinstance(after.type, TimestampType):
        # MariaDB does so in strict mode too, MySQL where the column is copied.
        reason = "the source puts the time of the change where a row had NULL, also in strict mode"
        hint = "before such a change, write a value to the rows that have NULL, and let it be carried"
        return Refusal(after.name, f"it became NOT NULL: {reason}", f"{hint}; {_READ_ANEW}")
    if sql_mode & STRICT:
        return None
    reason = "it became NOT NULL in a session without strict mode, where the source turns NULL into 0 or ''"
    hint = "change tables with STRICT_TRANS_TABLES in sql_mode, so that the source refuses this while there are NULLs"
    return Refusal(after.name, reason, f"{hint}; {_READ_ANEW}")


def _column_refusal(before: Column, after: Column) -> Refusal | None:
    changed = f"it changed from {_shown(before, after)} to {_shown(after, before)}"
    if _is_generated(before) or _is_generated(after):
        same = before.declaration == after.declaration
        return None if same else Refusal(after.name, f"{changed}, which computes existing rows anew", _READ_ANEW)
    if isinstance(after.type, UnsupportedType) and before.type != after.type:
        return Refusal(after.name, f"{changed}, a type that cannot be carried", _READ_ANEW)
    if type(before.type) is not type(after.type) and not _holds(after.type, before.type):
        return Refusal(after.name, f"{changed}, a type whose values are written in another way", _READ_ANEW)
    if before.type != after.type and not _holds(after.type, before.type):
        return Refusal(after.name, f"{changed}, which does not hold every value it held before", _READ_ANEW)
    reason = _rewrite(before, after)
    return Refusal(after.name, f"{changed}, which {reason}", _READ_ANEW) if reason else None


def _shown(column: Column, other: Column) -> str:
    """The declaration, with the character set or the collation where nothing else tells it from `other`."""
    if column.declaration != other.declaration:
        return column.declaration
    charsets = [each.type.charset for each in (column, other) if isinstance(each.type, TextType)]
    return f"{column.declaration} {charsets[0] if len(set(charsets)) > 1 else column.collation}".rstrip()


def _is_generated(column: Column) -> bool:
    return "GENERATED ALWAYS" in column.declaration


def _holds(wide: ColumnType, narrow: ColumnType) -> bool:  # noqa: C901, PLR0911 - one return per pair of types
    """Whether every value of `narrow` is a value of `wide`, written the same way."""
    match narrow, wide:
        case IntegerType(), IntegerType():
            (low, high), (lowest, highest) = _range(narrow), _range(wide)
            return lowest <= low and high <= highest
        case DecimalType(), DecimalType():
            return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
        case FloatType(), FloatType():
            return wide.bits >= narrow.bits
        case TextType(), TextType():
            return has_characters(wide.charset, narrow.charset) and wide.characters_max >= narrow.characters_max
        case BytesType(), BytesType():
            # A fixed value is padded to its width, so another width is another value.
            return wide.bytes_max >= narrow.bytes_max and not wide.fixed
        case DateTimeType(digits), DateTimeType(more_digits):
            return more_digits >= digits
        case TimestampType(digits), TimestampType(more_digits):
            return more_digits >= digits
        case BitType(), BitType():
            return wide.bits >= narrow.bits
        case TimeType(digits), TimeType(more_digits):
            return more_digits >= digits
        case (EnumType(labels), EnumType(more_labels)) | (SetType(labels), SetType(more_labels)):
            return more_labels[: len(labels)] == labels
        case _:
            return False


def _range(type_: IntegerType) -> tuple[int, int]:
    return (0, 2**type_.bits - 1) if type_.unsigned else (-(2 ** (type_.bits - 1)), 2 ** (type_.bits - 1) - 1)


def _rewrite(before: Column, after: Column) -> str:
    """What the source does to existing values although the new type seems to hold them; "" for nothing."""
    match before.type, after.type:
        case TextType(), TextType():
            return _text_rewrite(before, before.type, after, after.type)
        case (FloatType() | DecimalType(), FloatType() | DecimalType()):
            return _number_rewrite(before, after)
        case _:
            return ""


def _text_rewrite(before: Column, old: TextType, after: Column, new: TextType) -> str:
    was, now = before.declaration.lower(), after.declaration.lower()
    if now.startswith("char") and not was.startswith("char"):
        return "cuts the spaces at the end of existing values"
    # CHAR and VARCHAR count characters, the TEXTs bytes.
    if _COUNTS_CHARACTERS.match(now):
        return ""
    bytes_each = BYTES_PER_CHARACTER.get(new.charset, 4)
    if not _COUNTS_CHARACTERS.match(was) and (old.charset == new.charset or old.charset != "latin1"):
        bytes_each = 1
    return "" if old.characters_max * bytes_each <= new.characters_max else "holds fewer bytes than it may need"


def _number_rewrite(before: Column, after: Column) -> str:
    was, now = before.declaration.lower(), after.declaration.lower()
    if "unsigned" in now and "unsigned" not in was:
        return "cannot be negative any more"
    is_float = isinstance(after.type, FloatType)
    digits_was, digits_now = _DIGITS.search(was), _DIGITS.search(now)
    rounds = digits_now and (not digits_was or digits_was.group() != digits_now.group())
    return "rounds existing values" if is_float and (rounds or _cut_float(before, after)) else ""


def _cut_float(before: Column, after: Column) -> bool:
    """A FLOAT(M,D) that becomes a DOUBLE is rounded to D digits anew, in 64 bits."""
    return before.type != after.type and _DIGITS.search(before.declaration) is not None
