"""Which rows a condition holds for, with SQL's third truth value: a comparison with NULL is neither true nor false.

Numbers compare as numbers: exactly, unless one of the two is FLOAT or DOUBLE,
where both are taken as DOUBLE; NaN equals itself and is above all others, as in
PostgreSQL, DuckDB and Spark. Texts compare byte for byte in UTF-8, whatever
their collation. Dates and times compare with texts that write them, instants in UTC.
What else comes as a text that the source prints is equal or not, and has no order.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.tables import (
    BitType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    YearType,
)
from penstock.core.transforms.conditions import (
    Both,
    Comparison,
    Condition,
    Constant,
    Either,
    IsLike,
    IsNull,
    IsOneOf,
    Name,
    Negation,
    Sign,
)
from penstock.core.transforms.constants import read_constant
from penstock.core.transforms.transform import columns_of, declared, refuse, require_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.tables import Column, ColumnType, TableSchema
    from penstock.core.transforms.transform import Values

Truths: TypeAlias = pa.BooleanArray
Datum: TypeAlias = "Values | pa.Scalar[pa.DataType]"
Family: TypeAlias = Literal["exact", "float", "text", "date", "local", "instant", "time"]

_WIDE_DIGITS: Final = 76
_WIDE: Final = Context(prec=400)
_DIGITS_KEPT: Final = 30
_FAMILIES: Final[Mapping[type[ColumnType], Family]] = {
    **dict.fromkeys((IntegerType, BitType, YearType, DecimalType), "exact"),
    FloatType: "float",
    **dict.fromkeys((TextType, EnumType, SetType, PrintedType), "text"),
    DateType: "date",
    DateTimeType: "local",
    TimestampType: "instant",
    TimeType: "time",
}
_TIMES: Final[Mapping[Family, ColumnType]] = {
    "date": DateType(),
    "local": DateTimeType(6),
    "instant": TimestampType(6),
    "time": TimeType(6),
}
_LIKE_PART: Final = re.compile(r"\\(?P<plain>.)|(?P<any>%)|(?P<one>_)|.", re.DOTALL)
_DATE_CHARACTERS: Final = len("2024-01-31")
_COMPARE: Final[Mapping[Sign, str]] = {
    "=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
_MIRRORED: Final[Mapping[Sign, Sign]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def find_matches(condition: Condition, schema: TableSchema, rows: pa.Table) -> Truths:
    """Return whether `condition` holds for each of n `rows`, laid out as for a `Transform` (bool[n], null: unknown).

    Raises TableStoppedError if it does not fit the columns of `schema`, with rows or without.
    """
    columns = dict(zip((column.name for column in schema.columns), columns_of(schema, rows), strict=True))
    return _Rows(schema, columns).matches(condition)


class _Rows:
    """Rows of one table, by column."""

    def __init__(self, schema: TableSchema, columns: Mapping[str, Values]) -> None:
        self._schema = schema
        self._columns = columns

    def matches(self, condition: Condition) -> Truths:  # noqa: PLR0911 - one return per kind of condition
        match condition:
            case Both(left, right):
                return pc.and_kleene(self.matches(left), self.matches(right))
            case Either(left, right):
                return pc.or_kleene(self.matches(left), self.matches(right))
            case Negation(part):
                return pc.invert(self.matches(part))
            case IsNull(name):
                return self._columns[self._column(name).name].is_null()
            case IsLike(name, pattern):
                column = self._column(name)
                if _FAMILIES.get(type(column.type)) != "text":
                    raise self._unfit(column, "LIKE is for text")
                texts = cast("pa.StringArray", self._columns[column.name])
                return pc.match_substring_regex(texts, _like_expression(pattern))
            case IsOneOf(name, constants):
                found = [self._compare(Comparison(name, "=", constant)) for constant in constants]
                return reduce(pc.or_kleene, found)
            case Comparison():
                return self._compare(condition)
            case _:
                assert_never(condition)

    def _compare(self, comparison: Comparison) -> Truths:
        left, sign, right = comparison.left, comparison.sign, comparison.right
        if isinstance(left, Constant):
            left, sign, right = right, _MIRRORED[sign], left
        if isinstance(left, Constant):
            reason = "its filter compares two constants"
            raise refuse(self._schema, "", reason, "compare with a column")
        column = self._column(left)
        self._require_order(column, sign)
        family, values = _FAMILIES.get(type(column.type)), self._compared(column)
        if family is None:
            raise self._unfit(column, "only IS NULL can be asked of a column")
        if isinstance(right, Constant):
            return self._with_constant(column, family, sign, right)
        other = self._column(right)
        self._require_order(other, sign)
        common = _common(family, _FAMILIES.get(type(other.type)))
        if common is None:
            raise self._unfit(column, f"it cannot be compared with {other.name}, which is {declared(other)},")
        return _compare_as(common, sign, values, self._compared(other))

    def _with_constant(self, column: Column, family: Family, sign: Sign, constant: Constant) -> Truths:
        values, value = self._compared(column), constant.value
        if isinstance(value, str) and column.is_padded:
            value = value.rstrip(" ")
        if isinstance(value, Decimal) != (family in {"exact", "float"}):
            if _is_printed(column):
                raise self._has_no_order(column)
            wanted = "a number" if family in {"exact", "float"} else "a text in single quotes"
            raise self._unfit(column, f"it is compared with {constant.value}, and needs {wanted}")
        try:
            return _compare_as(family, sign, values, _constant(family, value))
        except (ValueError, pa.ArrowException) as error:
            raise self._unfit(column, f"{constant.value!s} cannot be compared with it: {error}") from error

    def _compared(self, column: Column) -> Values:
        values = self._columns[column.name]
        if column.is_padded:
            values = pc.utf8_rtrim(cast("Any", values), characters=" ")
        return values

    def _require_order(self, column: Column, sign: Sign) -> None:
        if sign not in {"=", "<>"} and _is_printed(column):
            raise self._has_no_order(column)

    def _has_no_order(self, column: Column) -> Exception:
        reason = (
            f"its filter does not fit: the values of {declared(column)} come as the texts that the source prints, "
            "which neither are numbers nor have their order"
        )
        number = f"CAST({column.name} AS DECIMAL(38,10))"
        hint = (
            "compare a column that an `expression` ahead of the filter makes of it, for a number "
            f'{{name: {column.name}_number, sql: "{number}", type: "decimal(38,10)"}}; or texts, with = and IN'
        )
        return refuse(self._schema, column.name, reason, hint)

    def _column(self, name: Name) -> Column:
        exact = [column for column in self._schema.columns if column.name == name.name]
        near = [column for column in self._schema.columns if column.name.casefold() == name.name.casefold()]
        for found in (exact, near):
            if len(found) == 1:
                return found[0]
        require_columns(self._schema, [name.name])
        raise AssertionError(name)

    def _unfit(self, column: Column, reason: str) -> Exception:
        reason = f"its filter does not fit: {reason} of type {declared(column)}"
        return refuse(self._schema, column.name, reason, "correct the filter's condition")


def _is_printed(column: Column) -> bool:
    """Whether texts stand for values that have another order: 1000 comes before 9 as a text."""
    return isinstance(column.type, PrintedType) and column.type.kind in {"postgres", "json", "inet4", "inet6"}


def _like_expression(pattern: str) -> str:
    """Return LIKE's pattern as a regular expression of RE2: Arrow's own LIKE takes an escaped backslash for two."""

    def expression(part: re.Match[str]) -> str:
        match part.lastgroup:
            case "any":
                return ".*"
            case "one":
                return "."
            case _:
                return re.escape(part["plain"] or part[0])

    return rf"(?s)\A{_LIKE_PART.sub(expression, pattern)}\z"


def _common(left: Family, right: Family | None) -> Family | None:
    """Return what values of two columns are compared as; None if they cannot be."""
    if left == right:
        return left
    pair = {left, right}
    if pair == {"exact", "float"}:
        return "float"
    return "local" if pair == {"date", "local"} else None


def _constant(family: Family, value: Decimal | str) -> Datum:
    """Return a constant as what values of `family` are compared with; ValueError where it is none."""
    if isinstance(value, Decimal):
        return pa.scalar(float(value), pa.float64()) if family == "float" else _exact_constant(value)
    if family == "text":
        return pa.scalar(value, pa.string())
    if family in {"local", "instant"} and len(value) == _DATE_CHARACTERS:
        value = f"{value} 00:00:00"
    return read_constant(_TIMES[family], value)[0]


def _exact_constant(value: Decimal) -> Datum:
    """Return a number without zeros at the end of its fraction, so that it fits more columns."""
    if value == value.to_integral_value(context=_WIDE):
        value = value.quantize(Decimal(1), context=_WIDE)
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    if value.adjusted() >= _WIDE_DIGITS - _DIGITS_KEPT or scale > _DIGITS_KEPT:
        message = f"it has more than {_DIGITS_KEPT} digits after or before the point"
        raise ValueError(message)
    return pa.scalar(value, pa.decimal256(_WIDE_DIGITS, scale))


def _compare_as(family: Family, sign: Sign, left: Values, right: Datum) -> Truths:
    """Compare n values with n others, or with one constant."""
    match family:
        case "float":
            return _compare_floats(sign, left.cast(pa.float64()), right.cast(pa.float64()))
        case "exact":
            return _call(_COMPARE[sign], *_same_exact(left, right))
        case "local":
            return _call(_COMPARE[sign], left.cast(pa.timestamp("us")), right.cast(pa.timestamp("us")))
        case _:
            return _call(_COMPARE[sign], left, right)


def _same_exact(left: Values, right: Datum) -> tuple[Values, Datum]:
    """Return both with one type that holds every value of either."""
    if left.type == right.type:
        return left, right
    if pa.types.is_integer(left.type) and isinstance(right, pa.Scalar):
        try:
            return left, right.cast(left.type)
        except pa.ArrowInvalid:
            pass  # It has a fraction, or is beyond the column's range: compared as decimals it is just unequal.
    wide = pa.decimal256(_WIDE_DIGITS, max(_scale(left.type), _scale(right.type)))
    return left.cast(wide), right.cast(wide)


def _scale(type_: pa.DataType) -> int:
    return type_.scale if isinstance(type_, pa.Decimal128Type | pa.Decimal256Type) else 0


def _compare_floats(sign: Sign, left: Values, right: Datum) -> Truths:
    """Compare with NaN as a value that equals itself and is above all others; Arrow's NaN is unlike anything."""
    nan_left, nan_right = _call("is_nan", left), _call("is_nan", right)
    plain = {each: _call(_COMPARE[each], left, right) for each in ("=", "<")}
    equal = pc.or_kleene(plain["="], pc.and_kleene(nan_left, nan_right))
    less = pc.or_kleene(plain["<"], pc.and_kleene(pc.invert(nan_left), nan_right))
    match sign:
        case "=":
            return equal
        case "<>":
            return pc.invert(equal)
        case "<":
            return less
        case "<=":
            return pc.or_kleene(less, equal)
        case ">":
            return pc.invert(pc.or_kleene(less, equal))
        case ">=":
            return pc.invert(less)


def _call(function: str, *arguments: Datum) -> Truths:
    found: Truths = pc.call_function(function, list(arguments))
    return found
