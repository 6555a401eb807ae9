"""The words of SQL statements with their places, and a reader that takes one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import sqlglot
from sqlglot.errors import TokenError

from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXTS = frozenset({"STRING", "BYTE_STRING", "HEREDOC_STRING", "UNICODE_STRING", "RAW_STRING"})
_NEVER_CLOSED = re.compile(r"Missing (\S+) from \d+:(\d+)")
_HINT = "send what pg_dump --schema-only prints of the table, its types and its comments"


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a sign or a literal; `text` is a name as it is kept, or what is in the quotes.

    `kind` is name (quoted), text, number or word; `start` and `end` are its place in the SQL.
    """

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *texts: str) -> bool:
        """Tell whether it is one of these key words or signs, which quotes would make a name."""
        return self.kind == "word" and self.text.upper() in texts


def split_words(sql: str, dialect: str) -> list[Word]:
    """Return the words of `sql`. Raises RefusedError for what has none, such as a quote that is never closed."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=dialect)
    except TokenError as error:
        refuse_statement(_what_is_open(sql, error))
    words = []
    for token in tokens:
        kind = token.token_type.name
        if kind == "IDENTIFIER":
            words.append(Word("name", token.text, token.start, token.end + 1))
        elif kind in _TEXTS:
            words.append(Word("text", token.text, token.start, token.end + 1))
        elif kind == "NUMBER":
            words.append(Word("number", token.text, token.start, token.end + 1))
        else:
            # The parser knows some pairs of words as one.
            words += [Word("word", part, token.start, token.end + 1) for part in token.text.split()]
    return words


class WordReader:
    """Takes the words of a part of some SQL one after the other."""

    def __init__(self, sql: str, words: Sequence[Word]) -> None:
        """Begin at the first of `words`, which are of `sql`."""
        self._sql = sql
        self._words = words
        self.place = 0
        """How many words are taken."""

    @property
    def is_at_end(self) -> bool:
        """Whether no word is left."""
        return self.place >= len(self._words)

    def peek(self, ahead: int = 0) -> Word:
        """Return the next word, or one behind it; one without text at the end."""
        index = self.place + ahead
        end = self._words[-1].end if self._words else 0
        return self._words[index] if index < len(self._words) else Word("end", "", end, end)

    def take(self) -> Word:
        """Take the next word, whatever it is."""
        word = self.peek()
        self.place += 1
        return word

    def take_if(self, *texts: str) -> bool:
        """Take these words if they are the next ones, all of them; tell whether they were."""
        found = all(self.peek(number).is_word(text) for number, text in enumerate(texts))
        self.place += len(texts) if found else 0
        return found

    def expect(self, *texts: str) -> None:
        """Take these words. Raises RefusedError where others stand."""
        for text in texts:
            if not self.take_if(text):
                self.refuse(f"there should be {text}")

    def name(self) -> str:
        """Take a name: as it is in quotes, else in lower case. Raises RefusedError where there is none."""
        word = self.peek()
        if word.kind == "name" and word.text:
            return self.take().text
        if word.kind == "word" and (word.text[0].isalpha() or word.text[0] == "_"):
            return self.take().text.lower()
        return self.refuse("there should be a name")

    def rest(self) -> list[Word]:
        """Take all the words that are left."""
        first, self.place = self.place, len(self._words)
        return list(self._words[first:])

    def path(self) -> tuple[str, ...]:
        """Take names with dots between them."""
        names = [self.name()]
        while self.take_if("."):
            names.append(self.name())
        return tuple(names)

    def in_parentheses(self) -> list[Word]:
        """Take a pair of parentheses, and return the words in it."""
        self.expect("(")
        first, depth = self.place, 1
        while depth:
            if self.is_at_end:
                self.refuse("a parenthesis is not closed")
            word = self.take()
            depth += word.is_word("(") - word.is_word(")")
        return list(self._words[first : self.place - 1])

    def inner(self) -> WordReader:
        """Take a pair of parentheses, and return a reader of what is in it."""
        return WordReader(self._sql, self.in_parentheses())

    def names_in_parentheses(self) -> tuple[str, ...]:
        """Take names in parentheses, with commas between them."""
        inner = self.inner()
        names = [inner.name()]
        while inner.take_if(","):
            names.append(inner.name())
        if not inner.is_at_end:
            inner.refuse("there should be a comma or a closing parenthesis")
        return tuple(names)

    def source_of(self, words: Sequence[Word]) -> str:
        """Return the SQL that some words were read from."""
        return self._sql[words[0].start : words[-1].end] if words else ""

    def refuse(self, reason: str, hint: str = _HINT) -> NoReturn:
        """Refuse the whole because of the next word."""
        word = self.peek()
        at = repr(self._sql[word.start : word.end][:40]) if word.kind != "end" else "the end"
        refuse_statement(f"{_place(self._sql, word.start)}, at {at}: {reason}", hint)


def split_at(words: Sequence[Word], sign: str) -> list[list[Word]]:
    """Return the parts of `words` between the signs that are in no parentheses or brackets."""
    parts: list[list[Word]] = [[]]
    depth = 0
    for word in words:
        depth += word.is_word("(", "[") - word.is_word(")", "]")
        if depth == 0 and word.is_word(sign):
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def refuse_statement(reason: str, hint: str = _HINT) -> NoReturn:
    """Refuse a statement that no table comes from."""
    raise RefusedError(Code.INVALID_TABLE, f"this CREATE TABLE cannot be registered: {reason}", hint)


def _place(sql: str, start: int) -> str:
    line_start = sql.rfind("\n", 0, start) + 1
    return f"line {sql.count(chr(10), 0, start) + 1}, column {start - line_start + 1}"


def _what_is_open(sql: str, error: TokenError) -> str:
    found = _NEVER_CLOSED.search(f"{error} {error.__cause__}")
    return f"{_place(sql, int(found[2]))}: {found[1]} is never closed" if found else "a comment is never closed"
