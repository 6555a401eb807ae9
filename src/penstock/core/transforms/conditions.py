"""What a filter asks of a row: a condition in SQL, parsed.

    condition:  condition OR condition | condition AND condition | NOT condition | ( condition ) | test
    test:       operand (= | <> | != | < | <= | > | >=) operand
                | name IS [NOT] NULL | name [NOT] IN (constant, ...) | name [NOT] LIKE 'pattern'
                | operand [NOT] BETWEEN operand AND operand
    operand:    name | constant
    constant:   12 | -1.5 | 1e3 | 'text' | TRUE | FALSE

NOT binds tighter than AND, AND tighter than OR, as in SQL (ISO 9075-2, 6.39).
Words are of any case. A name with other characters than letters, digits, `_` and
`$`, or that is one of these words, is in backticks or double quotes. A quote
within quotes is written twice. In a pattern `%` stands for any characters, `_`
for one, and a backslash takes their meaning away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, NoReturn, TypeAlias

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>`(?:[^`]|``)+`|"(?:[^"]|"")+")
    |(?P<sign><>|!=|<=|>=|==|[=<>(),-])
    )""",
    re.VERBOSE,
)
_WORDS: Final = frozenset({"and", "or", "not", "is", "null", "in", "like", "between", "true", "false"})
_PARTS_MAX: Final = 100

Sign: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
_SIGNS: Final[dict[str, Sign]] = {
    "=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


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
    """Parse a condition. Raises ValueError, which tells the character at which it cannot go on, and why."""
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


class _Parser:
    """Recursive descent, one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokenize(text))
        self._next = 0
        self._parts = 0

    def parse(self) -> Condition:
        condition = self._either()
        if self._peek().kind != "end":
            self._expect("AND, OR or the end")
        return condition

    def _either(self) -> Condition:
        left = self._both()
        while self._took("or"):
            left = Either(left, self._both())
        return left

    def _both(self) -> Condition:
        left = self._negation()
        while self._took("and"):
            left = Both(left, self._negation())
        return left

    def _negation(self) -> Condition:
        self._parts += 1
        if self._parts > _PARTS_MAX:
            self._fail(f"has more than {_PARTS_MAX} parts")
        condition: Condition
        if self._took("not"):
            condition = Negation(self._negation())
        elif self._took("("):
            condition = self._either()
            self._require(")")
        else:
            condition = self._test()
        return condition

    def _test(self) -> Condition:
        left = self._operand()
        token = self._peek()
        if token.text in _SIGNS and token.kind == "sign":
            self._next += 1
            return Comparison(left, _SIGNS[token.text], self._operand())
        if self._took("is"):
            negated = self._took("not")
            self._require("null")
            return _negate(IsNull(self._named(left, token)), negated=negated)
        negated = self._took("not")
        return _negate(self._set_test(left), negated=negated)

    def _set_test(self, left: Operand) -> Condition:  # noqa: RET503 - _expect() does not return
        token = self._peek()
        if self._took("between"):
            least = self._operand()
            self._require("and")
            return Both(Comparison(left, ">=", least), Comparison(left, "<=", self._operand()))
        if self._took("in"):
            return IsOneOf(self._named(left, token), tuple(self._constants()))
        if self._took("like"):
            pattern = self._operand()
            if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
                self._fail("needs a text behind LIKE")
            if re.search(r"(?<!\\)(\\\\)*\\$", pattern.value):
                self._fail("has a pattern that ends with a backslash")
            return IsLike(self._named(left, token), pattern.value)
        self._expect("a comparison, IS, IN, LIKE or BETWEEN")

    def _constants(self) -> list[Constant]:
        self._require("(")
        constants = [self._constant()]
        while self._took(","):
            constants.append(self._constant())
        self._require(")")
        return constants

    def _constant(self) -> Constant:
        operand = self._operand()
        if isinstance(operand, Name):
            self._fail("compares with columns in IN (...), which takes constants")
        return operand

    def _operand(self) -> Operand:  # noqa: RET503 - _expect() does not return
        token = self._peek()
        self._next += 1
        match token.kind:
            case "number":
                return Constant(Decimal(token.text))
            case "text":
                return Constant(token.text[1:-1].replace("''", "'"))
            case "name":
                quote = token.text[0]
                return Name(token.text[1:-1].replace(quote * 2, quote))
            case "word" if token.text.casefold() in {"true", "false"}:
                return Constant(Decimal(token.text.casefold() == "true"))
            case "word" if token.text.casefold() == "null":
                self._fail("compares with NULL, which is neither true nor false: write IS NULL")
            case "word" if token.text.casefold() not in _WORDS:
                return Name(token.text)
            case "sign" if token.text == "-" and self._peek().kind == "number":
                self._next += 1
                return Constant(-Decimal(self._tokens[self._next - 1].text))
        self._next -= 1
        self._expect("a column or a constant")

    def _named(self, operand: Operand, token: _Token) -> Name:
        if isinstance(operand, Constant):
            self._fail(f"has a constant before {token.text}, where a column should be")
        return operand

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _took(self, text: str) -> bool:
        token = self._peek()
        taken = token.kind in {"word", "sign"} and token.text.casefold() == text
        self._next += taken
        return taken

    def _require(self, text: str) -> None:
        if not self._took(text):
            self._expect(text.upper())

    def _expect(self, wanted: str) -> NoReturn:
        token = self._peek()
        found = "ends" if token.kind == "end" else f"has {token.text}"
        self._fail(f"{found} where {wanted} should be")

    def _fail(self, what: str) -> NoReturn:
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        message = f"the condition {self._text!r} {what} (character {token.start + 1})"
        raise ValueError(message)


def _negate(condition: Condition, *, negated: bool) -> Condition:
    return Negation(condition) if negated else condition


def _tokenize(text: str) -> list[_Token]:
    tokens, at = [], 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            message = (
                f"the condition {text!r} has a character that begins nothing: {text[start]} (character {start + 1})"
            )
            raise ValueError(message)
        tokens.append(_Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
        at = found.end()
    return [*tokens, _Token("end", "", end)]
