"""Names, casts and functions inside statements that PostgreSQL takes as they are but for these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.names import quoted
from penstock.dev.redshift.tokens import SqlTokenKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.dev.redshift.tokens import Token

VERSION = (
    "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), "
    "Redshift 1.0.0 (Penstock's stand-in)"
)
_LONG_NAME_BYTES = 63
_FUNCTIONS = {"NVL": "coalesce", "LEN": "length", "LOWER": "standin_lower", "UPPER": "standin_upper"}
_REFUSED = {
    ("ON", "CONFLICT"): 'syntax error at or near "CONFLICT"',
    ("DISTINCT", "ON"): "SELECT DISTINCT ON is not supported",
    ("FOR", "UPDATE"): "SELECT FOR UPDATE is not supported",
}


def rewrite_tokens(tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """The edits that make PostgreSQL's SQL of Redshift's; RedshiftError for what only PostgreSQL has."""
    edits: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1].word if index + 1 < len(tokens) else ""
        before = tokens[index - 1].word if index else ""
        if (token.word, following) in _REFUSED:
            raise refuse(_REFUSED[token.word, following], sqlstate="42601")
        match token.kind:
            case SqlTokenKind.QUOTED:
                edits.append((token.start, token.end, quoted(token.name)))
            case SqlTokenKind.STRING:
                edits += _literal(tokens, index)
            case SqlTokenKind.WORD:
                edits += _word(tokens, index, before, following)
            case _:
                pass
    return edits


def _word(tokens: Sequence[Token], index: int, before: str, following: str) -> list[tuple[int, int, str]]:
    token = tokens[index]
    if len(token.text.encode()) > _LONG_NAME_BYTES:
        return [(token.start, token.end, quoted(token.name))]
    if before == ".":
        return []
    if following == "(" and token.word in _FUNCTIONS:
        return [(token.start, token.end, _FUNCTIONS[token.word])]
    replaced = ""
    end = token.end
    if token.word == "SYSDATE" and following != "(":
        replaced = "getdate()"
    elif token.word == "MINUS":
        replaced = "EXCEPT"
    elif token.word == "NVARCHAR":
        replaced = "varchar"
    elif token.word == "MAX" and before == "(" and following == ")" and _is_varchar(tokens, index):
        replaced = "65535"
    elif token.word == "VERSION" and following == "(" and index + 2 < len(tokens) and tokens[index + 2].text == ")":
        replaced, end = f"'{VERSION.replace(chr(39), chr(39) * 2)}'::text", tokens[index + 2].end
    elif token.word == "RETURNING":
        message = 'syntax error at or near "RETURNING"'
        raise refuse(message, sqlstate="42601", hint="Redshift has no RETURNING")
    return [(token.start, end, replaced)] if replaced else []


def _is_varchar(tokens: Sequence[Token], index: int) -> bool:
    return index > 1 and tokens[index - 2].word in {"VARCHAR", "VARYING", "NVARCHAR"}


def _literal(tokens: Sequence[Token], index: int) -> list[tuple[int, int, str]]:
    """A string that is cast to VARBYTE stands for its UTF-8 bytes, which PostgreSQL keeps in hex."""
    following = [token.word for token in tokens[index + 1 : index + 3]]
    if following == ["::", "VARBYTE"]:
        return [(tokens[index].start, tokens[index].end, f"'{tokens[index].value.encode().hex()}'")]
    return []
