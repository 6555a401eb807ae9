"""What a filter asks of a row: a condition in SQL, read by sqlglot.

    condition:  condition OR condition | condition AND condition | NOT condition | ( condition ) | test
    test:       operand (= | <> | != | < | <= | > | >=) operand
                | name IS [NOT] NULL | name [NOT] IN (constant, ...) | name [NOT] LIKE 'pattern'
                | operand [NOT] BETWEEN operand AND operand
    operand:    name | constant
    constant:   12 | -1.5 | 1e3 | 'text' | TRUE | FALSE

All else that is SQL is refused. A name that is a word of SQL, or has other
characters than letters, digits, `_` and `$`, is in backticks or double quotes. A
quote within quotes is written twice. In a pattern `%` stands for any characters,
`_` for one, and a backslash takes their meaning away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp

_PARTS_MAX: Final = 100
# What may hold other conditions: counted before they are read, since reading them recurses.
_PART: Final = re.compile(r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|(\b(?:and|or|not|between)\b|\()", re.IGNORECASE)

Sign: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
_SIGNS: Final[dict[str, Sign]] = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or a text; TRUE is 1 and FALSE 0, as in MySQL."""

    value: Decimal | str


Operand: TypeAlias = Name | Constant


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left sign right`."""

    left: Operand
    sign: Sign
    right: Operand


@dataclass(frozen=True, slots=True)
class IsNull:
    """`name IS NULL`."""

    name: Name


@dataclass(frozen=True, slots=True)
class IsOneOf:
    """`name IN (constants)`."""

    name: Name
    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class IsLike:
    """`name LIKE 'pattern'`."""

    name: Name
    pattern: str


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT part`."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """`left AND right`."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    """`left OR right`."""

    left: Condition
    right: Condition


Condition: TypeAlias = Comparison | IsNull | IsOneOf | IsLike | Negation | Both | Either


def parse_condition(text: str) -> Condition:
    """Read a condition. Raises ValueError, which tells what in it cannot be read, and why."""
    if sum(found[1] is not None for found in _PART.finditer(text)) >= _PARTS_MAX:
        _fail(text, f"has more than {_PARTS_MAX} parts")
    # The parser takes a fifth of a second to import, which whoever has no filter need not wait for.
    from sqlglot import parse_one  # noqa: PLC0415
    from sqlglot.errors import ParseError, TokenError  # noqa: PLC0415

    from penstock.core.transforms.condition_dialect import ConditionDialect  # noqa: PLC0415

    if not text.strip():
        _fail(text, "is empty")
    try:
        node = parse_one(text, dialect=ConditionDialect)
    except ParseError as error:
        found = error.errors[0]
        lacks = "missing" in found["description"] or "Expecting" in found["description"]
        what = "lacks something after" if lacks else "cannot be read as SQL at"
        _fail(text, f"{what} {found['highlight']} (character {found['col']})")
    except TokenError:
        _fail(text, "has a quote that nothing closes, or a character that begins nothing")
    return _Reader(text).condition(node)


def names_in(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition names, as it writes them."""
    match condition:
        case Both(left, right) | Either(left, right):
            yield from names_in(left)
            yield from names_in(right)
        case Negation(part):
            yield from names_in(part)
        case Comparison(left, _, right):
            yield from (operand.name for operand in (left, right) if isinstance(operand, Name))
        case IsNull(name) | IsOneOf(name) | IsLike(name):
            yield name.name
        case _:
            assert_never(condition)


@dataclass(frozen=True, slots=True)
class _Reader:
    """From sqlglot's nodes to ours, a method for each rule; what has none is refused."""

    text: str

    def condition(self, node: exp.Expr) -> Condition:
        match node.key, _parts(node):
            case "paren", {"this": part}:
                return self.condition(part)
            case "and", {"this": left, "expression": right}:
                return Both(self.condition(left), self.condition(right))
            case "or", {"this": left, "expression": right}:
                return Either(self.condition(left), self.condition(right))
            case "not", {"this": part}:
                return Negation(self.condition(part))
            case _:
                return self._test(node)

    def _test(self, node: exp.Expr) -> Condition:  # noqa: RET503 - _refuse() does not return
        parts = _parts(node)
        match node.key, parts:
            case sign, {"this": left, "expression": right} if sign in _SIGNS and len(parts) == 2:  # noqa: PLR2004
                return Comparison(self._operand(left), _SIGNS[sign], self._operand(right))
            case "is", {"this": name, "expression": what}:
                if what.key != "null":
                    _fail(self.text, f"has {what.sql()} where NULL should be")
                return IsNull(self._name(name, "IS"))
            case "in", {"this": name, "expressions": list(constants), **rest} if not rest:
                return IsOneOf(self._name(name, "IN"), tuple(map(self._constant, constants)))
            case "like", {"this": name, "expression": pattern, **rest} if rest in ({}, {"negate": True}):
                like = IsLike(self._name(name, "LIKE"), self._pattern(pattern))
                return Negation(like) if rest else like
            case "between", {"this": name, "low": low, "high": high, **rest} if not rest:
                between = self._operand(name)
                return Both(
                    Comparison(between, ">=", self._operand(low)), Comparison(between, "<=", self._operand(high))
                )
        self._refuse(node, "a comparison, IS, IN, LIKE or BETWEEN")

    def _operand(self, node: exp.Expr) -> Operand:  # noqa: RET503 - _refuse() does not return
        match node.key, _parts(node):
            case "column", {"this": name, **rest} if not rest and name.key == "identifier":
                return Name(name.name)
            case "literal", _:
                return Constant(node.name if node.is_string else Decimal(node.name))
            case "neg", {"this": number} if number.key == "literal" and not number.is_string:
                return Constant(-Decimal(number.name))
            case "boolean", _:
                return Constant(Decimal(bool(node.this)))
            case "null", _:
                _fail(self.text, "compares with NULL, which is neither true nor false: write IS NULL")
        self._refuse(node, "a column or a constant")

    def _name(self, node: exp.Expr, before: str) -> Name:
        operand = self._operand(node)
        if isinstance(operand, Constant):
            _fail(self.text, f"has a constant before {before}, where a column should be")
        return operand

    def _constant(self, node: exp.Expr) -> Constant:
        operand = self._operand(node)
        if isinstance(operand, Name):
            _fail(self.text, "compares with columns in IN (...), which takes constants")
        return operand

    def _pattern(self, node: exp.Expr) -> str:
        operand = self._operand(node)
        if not isinstance(operand, Constant) or not isinstance(operand.value, str):
            _fail(self.text, "needs a text after LIKE")
        if re.search(r"(?<!\\)(\\\\)*\\$", operand.value):
            _fail(self.text, "has a pattern that ends with a backslash")
        return operand.value

    def _refuse(self, node: exp.Expr, wanted: str) -> NoReturn:
        what = f"has {node.sql()!r} where {wanted} should be"
        _fail(self.text, f"{what} (put a column's name that is a word of SQL in backticks)")


def _parts(node: exp.Expr) -> dict[str, Any]:
    return {name: part for name, part in node.args.items() if part not in (None, False, [])}


def _fail(text: str, what: str) -> NoReturn:
    message = f"the condition {text!r} {what}"
    raise ValueError(message)
