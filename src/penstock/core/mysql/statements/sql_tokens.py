"""Cutting a MySQL or MariaDB statement into tokens, as far as naming tables needs it.

Source: MariaDB Server documentation, "Comment Syntax", "Identifier Names",
"String Literals"; MySQL Reference Manual, sections 11.1 and 11.7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.mysql.statements.sql_session import ANSI_QUOTES, NO_BACKSLASH_ESCAPES

if TYPE_CHECKING:
    from collections.abc import Sequence

TableName: TypeAlias = tuple[str | None, str]
"""Schema and name, as written; None for the schema that is selected."""

# Servers know no other blanks, the last one in sets of one byte only: all else that is not ASCII may stand in a name.
_BLANKS = r"[ \t\n\v\f\r\xa0]"
_PLAIN = {"double": r'"(?:[^"]|"")*"?', "text": r"'(?:[^']|'')*'?"}
_ESCAPED = {"double": r'"(?:[^"\\]|\\.|"")*"?', "text": r"'(?:[^'\\]|\\.|'')*'?"}


def _pattern(double: str, text: str) -> re.Pattern[str]:
    return re.compile(
        rf"""
          (?P<blank>   {_BLANKS}+ | --(?=[\x00-\x20\x7f\xa0]|\Z)[^\n]* | \#[^\n]*
                     | /\*M?!\d* | \*/ | /\*.*?(?:\*/|\Z) )
        | (?P<back>    `(?:[^`]|``)*`? )
        | (?P<double>  {double} )
        | (?P<text>    {text} )
        | (?P<word>    [\w$\x80-\x9f\xa1-\uffff]+ )
        | (?P<mark>    . )
        """,
        re.VERBOSE | re.DOTALL,
    )


# By whether a backslash escapes what follows it.
_ESCAPING = _pattern(_ESCAPED["double"], _ESCAPED["text"])
_NOT_IN_NAMES = _pattern(_PLAIN["double"], _ESCAPED["text"])
_NOWHERE = _pattern(_PLAIN["double"], _PLAIN["text"])


class TokenKind(Enum):
    """What a token is. DOUBLE is a name under ANSI_QUOTES, else a text: only its place can tell."""

    WORD = auto()
    NAME = auto()
    DOUBLE = auto()
    TEXT = auto()
    MARK = auto()


_KINDS = {
    "back": TokenKind.NAME,
    "double": TokenKind.DOUBLE,
    "text": TokenKind.TEXT,
    "word": TokenKind.WORD,
    "mark": TokenKind.MARK,
}


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `value` has no quotes; `upper` is a bare word or mark in capitals, "" for anything quoted.

    `start` and `end` are its place in the statement, in characters.
    """

    kind: TokenKind
    value: str
    upper: str
    start: int
    end: int


def read_tokens(sql: str, sql_mode: int = 0) -> Sequence[Token]:
    """Cut `sql` of a session with `sql_mode`; comments are dropped, the inside of `/*! ... */` is kept.

    Takes any text, never raises.
    """
    pattern = _ESCAPING
    if sql_mode & NO_BACKSLASH_ESCAPES:
        pattern = _NOWHERE
    elif sql_mode & ANSI_QUOTES:
        pattern = _NOT_IN_NAMES
    return [_token(match) for match in pattern.finditer(sql) if match.lastgroup != "blank"]


def query_of(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return what a CREATE TABLE gets its rows from, with all behind it; nothing if it has none."""
    words = [token.upper for token in tokens] + [""]
    names = words.index("TABLE") + 1 if "TABLE" in words else len(tokens)
    for at in range(names, len(tokens)):
        # Partitions have VALUES too, of other words; what a dot stands before is a name, whatever it is.
        is_query = words[at] in {"SELECT", "TABLE"} or (words[at] == "VALUES" and words[at + 1] in {"(", "ROW"})
        if is_query and words[at - 1] != ".":
            return tokens[at:]
    return ()


def _token(match: re.Match[str]) -> Token:
    kind = _KINDS[match.lastgroup or "mark"]
    raw = match.group()
    if kind in {TokenKind.WORD, TokenKind.MARK}:
        return Token(kind, raw, raw.upper(), match.start(), match.end())
    quote = raw[0]
    inside = raw[1:-1] if len(raw) > 1 and raw.endswith(quote) else raw[1:]
    return Token(kind, inside.replace(quote * 2, quote), "", match.start(), match.end())


@dataclass(slots=True)
class TokenReader:
    """Walks over tokens. Past the end every look is "" and every take fails."""

    tokens: Sequence[Token]
    at: int = 0

    def peek(self, ahead: int = 0) -> str:
        """The bare word or mark that stands `ahead` tokens on, in capitals."""
        index = self.at + ahead
        return self.tokens[index].upper if index < len(self.tokens) else ""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self.tokens)

    def skip(self, *words: str) -> bool:
        """Step over `words` if exactly they come next."""
        if any(self.peek(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def skip_any(self, words: frozenset[str]) -> None:
        """Step over whatever comes next that is in `words`."""
        while self.peek() in words:
            self.at += 1

    def seek(self, *words: str) -> bool:
        """Step to the next place where `words` stand and over them; stay and say False if there is none."""
        for start in range(self.at, len(self.tokens)):
            if all(self.peek(start - self.at + ahead) == word for ahead, word in enumerate(words)):
                self.at = start + len(words)
                return True
        return False

    def take_identifier(self) -> str | None:
        """A name, quoted or bare; None if there is none here."""
        if self.is_done or self.tokens[self.at].kind not in {TokenKind.WORD, TokenKind.NAME, TokenKind.DOUBLE}:
            return None
        self.at += 1
        return self.tokens[self.at - 1].value

    def take_table(self) -> TableName | None:
        """`name`, `schema.name` or `.name`; the schema is None where it is not written."""
        self.skip(".")
        first = self.take_identifier()
        if first is None or not self.skip("."):
            return None if first is None else (None, first)
        second = self.take_identifier()
        return None if second is None else (first, second)
