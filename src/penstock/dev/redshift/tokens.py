"""SQL as words: just enough to tell Redshift's statements apart and to rewrite what PostgreSQL takes otherwise.

Redshift reads a backslash in a string as PostgreSQL 8.0 did: it escapes what
follows. The PostgreSQL behind us is told to do the same.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SqlTokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    PARAMETER = "parameter"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its `text` as written, from `start` up to `end` in its statement."""

    kind: SqlTokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word or sign in upper case; "" for a string or a quoted name, which are never keywords."""
        return self.text.upper() if self.kind not in {SqlTokenKind.STRING, SqlTokenKind.QUOTED} else ""

    @property
    def name(self) -> str:
        """The name that it stands for: Redshift folds its ASCII letters to lower case, in quotes too."""
        name = self.text[1:-1].replace('""', '"') if self.kind is SqlTokenKind.QUOTED else self.text
        return name.translate(_FOLDED)

    @property
    def value(self) -> str:
        """What a string stands for."""
        if self.text.startswith("$"):
            tag = self.text[: self.text.index("$", 1) + 1]
            return self.text[len(tag) : -len(tag)]
        inner = self.text[self.text.index("'") + 1 : -1].replace("''", "'")
        return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), inner)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text without the semicolon, and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def words(self, count: int) -> tuple[str, ...]:
        """The first `count` words in upper case, fewer where it has fewer."""
        return tuple(token.word for token in self.tokens[:count])


_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
  | (?P<string>[eEbBxX]?'(?:[^'\\]|''|\\.)*'|(?P<tag>\$[A-Za-z_]*\$).*?(?P=tag))
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<parameter>\$\d+)
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<sign>::|<=|>=|<>|!=|\|\||:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def split(text: str) -> list[Statement]:
    """The statements of a query string; empty ones are left out."""
    statements: list[Statement] = []
    tokens: list[Token] = []
    begin = 0
    for token in tokenize(text):
        if token.text == ";" and token.kind is SqlTokenKind.SIGN:
            _close(text[begin : token.start], tokens, begin, statements)
            tokens, begin = [], token.end
        else:
            tokens.append(token)
    _close(text[begin:], tokens, begin, statements)
    return statements


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`, without spaces and comments."""
    return [
        Token(
            SqlTokenKind(found.lastgroup if found.lastgroup != "tag" else "string"),
            found[0],
            found.start(),
            found.end(),
        )
        for found in _TOKEN.finditer(text)
        if found["space"] is None
    ]


def literal(text: str) -> str:
    """`text` as a string, of which `Token.value` is `text` again."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def render(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """`text` with each (start, end, replacement) done; they do not overlap."""
    parts: list[str] = []
    at = 0
    for start, end, replacement in sorted(edits):
        parts += [text[at:start], replacement]
        at = end
    return "".join([*parts, text[at:]])


def closing(tokens: Sequence[Token], opening: int) -> int:
    """The index of the parenthesis that closes the one at `opening`; the last index where none does."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].word, 0)
        if depth == 0:
            return index
    return len(tokens) - 1


def _close(text: str, tokens: list[Token], begin: int, statements: list[Statement]) -> None:
    if tokens:
        moved = tuple(Token(each.kind, each.text, each.start - begin, each.end - begin) for each in tokens)
        statements.append(Statement(text, moved))
