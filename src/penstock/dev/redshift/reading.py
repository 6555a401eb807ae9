"""Reading a statement word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dev.redshift.expressions import rewrite_tokens
from penstock.dev.redshift.names import checked_name
from penstock.dev.redshift.tokens import SqlTokenKind, closing, render
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.dev.redshift.tokens import Statement, Token


class Reading:
    """A place in a statement's tokens, which moves on as it is read."""

    def __init__(self, statement: Statement, tokens: Sequence[Token] | None = None) -> None:
        """Begin at the first of `tokens`, by default all of the statement's."""
        self._statement = statement
        self.tokens = list(statement.tokens if tokens is None else tokens)
        self._at = 0

    def at_end(self) -> bool:
        """Whether all is read."""
        return self._at >= len(self.tokens)

    def peek(self) -> str:
        """The next word in upper case, "" at the end and for strings and quoted names."""
        return "" if self.at_end() else self.tokens[self._at].word

    def next(self) -> Token:
        """The next token; RedshiftError at the end."""
        if self.at_end():
            raise self.error()
        self._at += 1
        return self.tokens[self._at - 1]

    def take(self, word: str) -> bool:
        """Move on if the next word is this one."""
        found = self.peek() == word
        self._at += found
        return found

    def take_all(self, *words: str) -> bool:
        """Move on if these words follow."""
        found = [token.word for token in self.tokens[self._at : self._at + len(words)]] == list(words)
        self._at += len(words) * found
        return found

    def expect(self, word: str) -> None:
        """Move on; RedshiftError if the next word is another."""
        if not self.take(word):
            raise self.error()

    def string(self) -> str:
        """What the string that follows stands for."""
        token = self.next()
        if token.kind is not SqlTokenKind.STRING:
            raise self.error(token.text)
        return token.value

    def number(self) -> int:
        """The whole number that follows."""
        token = self.next()
        if not token.text.isdigit():
            raise self.error(token.text)
        return int(token.text)

    def qualified_name(self) -> str:
        """A name with the schema or database before it, quoted for PostgreSQL."""
        parts = [checked_name(self.next())]
        while self.take("."):
            parts.append(checked_name(self.next()))
        return ".".join(parts[-2:])

    def column_list(self) -> list[str]:
        """Names in parentheses, quoted for PostgreSQL."""
        found = []
        for item in self.items():
            found.append(checked_name(item.next()))
            if not item.at_end():
                raise item.error()
        return found

    def items(self) -> list[Reading]:
        """What stands between commas in the parentheses that follow."""
        if self.peek() != "(":
            raise self.error()
        end = closing(self.tokens, self._at)
        inside = self.tokens[self._at + 1 : end]
        self._at = end + 1
        found: list[Reading] = []
        tokens: list[Token] = []
        depth = 0
        for token in inside:
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if token.text == "," and depth == 0:
                found.append(Reading(self._statement, tokens))
                tokens = []
            else:
                tokens.append(token)
        return [*found, Reading(self._statement, tokens)]

    def until(self, words: frozenset[str]) -> list[Token]:
        """The tokens before the next of these words outside of parentheses."""
        depth, begin = 0, self._at
        while not self.at_end() and (depth > 0 or self.peek() not in words):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            self._at += 1
        return self.tokens[begin : self._at]

    def expression(self, words: frozenset[str]) -> str:
        """An expression in PostgreSQL's words: up to its own closing parenthesis, or the next of these words."""
        first = self.next()
        if first.text == "(":
            self._at = closing(self.tokens, self._at - 1) + 1
            return self._rewritten([first, *self.tokens[self.tokens.index(first) + 1 : self._at]])
        return self._rewritten([first, *self.until(words)])

    def rest(self) -> str:
        """All that is left, in PostgreSQL's words."""
        left = self.tokens[self._at :]
        self._at = len(self.tokens)
        return self._rewritten(left)

    def error(self, at: str = "") -> RedshiftError:
        """A syntax error at the next token, or at `at`."""
        where = at or ("end of input" if self.at_end() else self.tokens[self._at].text)
        return RedshiftError("42601", f'syntax error at or near "{where}"', hint="the stand-in does not know it")

    def _rewritten(self, tokens: Sequence[Token]) -> str:
        if not tokens:
            return ""
        first, last = tokens[0].start, tokens[-1].end
        edits = [(start - first, end - first, text) for start, end, text in rewrite_tokens(tokens)]
        return render(self._statement.text[first:last], edits)
