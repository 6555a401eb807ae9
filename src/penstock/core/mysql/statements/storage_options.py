"""Taking out of a statement where and how its tables are stored: a tracker need not have what the source has for it.

Source: MySQL Reference Manual, "CREATE TABLE Statement", "ALTER DATABASE Statement"; MariaDB Server documentation,
"InnoDB Encryption Overview".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.statements.sql_tokens import TokenKind, read_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.mysql.statements.sql_tokens import Token

_NAMES = frozenset({TokenKind.WORD, TokenKind.NAME, TokenKind.DOUBLE})


def without_storage(sql: str, sql_mode: int = 0) -> str:
    """Return `sql` without encryption, tablespaces that somebody made and parsers of a plugin.

    A server without a keyring, the tablespace or the plugin refuses it with them.
    """
    pieces, done = [], 0
    for start, end, text in _replacements(read_tokens(sql, sql_mode)):
        pieces += [sql[done:start], text]
        done = end
    return "".join([*pieces, sql[done:]])


def _replacements(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """What is to stand in place of which part of the text."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        says_equal = at + 1 < len(tokens) and tokens[at + 1].upper == "="
        value = next(iter(tokens[at + 1 + says_equal :]), None)
        if value is None:
            return
        name = token.value.upper() if token.kind in _NAMES and (token.upper or says_equal) else ""
        if name == "ENCRYPTION" and not depth and value.kind in {TokenKind.TEXT, TokenKind.DOUBLE}:
            yield value.start, value.end, "'N'"
        elif name == "ENCRYPTED" and not depth and value.kind is not TokenKind.MARK and says_equal:
            yield value.start, value.end, "NO"
        elif name == "ENCRYPTION_KEY_ID" and not depth and says_equal:
            yield value.start, value.end, "1"
        elif name == "TABLESPACE" and (says_equal or (not depth and value.kind is TokenKind.NAME)):
            yield value.start, value.end, "`innodb_file_per_table`"
        elif name == "PARSER" and at and tokens[at - 1].upper == "WITH" and value.kind in _NAMES:
            yield tokens[at - 1].start, value.end, ""
