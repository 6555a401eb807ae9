"""Redshift's column types in PostgreSQL's words.

Source: Amazon Redshift Database Developer Guide, "Data types", "Character types",
"Numeric types", "Datetime types", "VARBYTE type", "SUPER type", "Unsupported PostgreSQL data types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.tokens import SqlTokenKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.dev.redshift.tokens import Token

_PLAIN = {
    **dict.fromkeys(["SMALLINT", "INT2"], "smallint"),
    **dict.fromkeys(["INTEGER", "INT", "INT4"], "integer"),
    **dict.fromkeys(["BIGINT", "INT8"], "bigint"),
    **dict.fromkeys(["REAL", "FLOAT4"], "real"),
    **dict.fromkeys(["DOUBLE PRECISION", "FLOAT8", "FLOAT"], "double precision"),
    **dict.fromkeys(["BOOLEAN", "BOOL"], "boolean"),
    "DATE": "date",
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMP WITHOUT TIME ZONE"], "timestamp"),
    **dict.fromkeys(["TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"], "timestamptz"),
    **dict.fromkeys(["TIME", "TIME WITHOUT TIME ZONE"], "time"),
    **dict.fromkeys(["TIMETZ", "TIME WITH TIME ZONE"], "timetz"),
    **dict.fromkeys(["INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND"], "interval"),
    "SUPER": "super",
    "GEOMETRY": "geometry",
    "GEOGRAPHY": "geography",
    "HLLSKETCH": "hllsketch",
    "BPCHAR": "char(256)",
    "TEXT": "varchar(256)",
}
_VARCHAR = frozenset({"VARCHAR", "CHARACTER VARYING", "NVARCHAR"})
_CHAR = frozenset({"CHAR", "CHARACTER", "NCHAR"})
_VARBYTE = frozenset({"VARBYTE", "VARBINARY", "BINARY VARYING"})
_NUMERIC = frozenset({"NUMERIC", "DECIMAL"})
_VARCHAR_BYTES_MAX = 65_535
_CHAR_BYTES_MAX = 4096
_VARBYTE_BYTES_MAX = 16_777_216
_VARBYTE_BYTES = 64_000
_PRECISION_MAX = 38
_PRECISION = 18
_SCALE_MAX = 37


def translate_type(tokens: Sequence[Token], column: str) -> str:
    """PostgreSQL's words for the type that `tokens` spell; RedshiftError for one that Redshift has not."""
    opening = next((index for index, token in enumerate(tokens) if token.text == "("), len(tokens))
    closing = next((index for index, token in enumerate(tokens) if token.text == ")"), len(tokens))
    name = " ".join(token.word for token in (*tokens[:opening], *tokens[closing + 1 :]))
    arguments = [token.word for token in tokens[opening + 1 : closing] if token.text != ","]
    if any(token.kind is SqlTokenKind.QUOTED for token in tokens) or "[" in name:
        raise _unsupported(column, tokens)
    if name in _VARCHAR:
        return f"varchar({_length(arguments, 256, _VARCHAR_BYTES_MAX, 'varchar')})"
    if name in _CHAR:
        return f"char({_length(arguments, 1, _CHAR_BYTES_MAX, 'char')})"
    if name in _VARBYTE:
        return f"varbyte({_length(arguments, _VARBYTE_BYTES, _VARBYTE_BYTES_MAX, 'varbyte')})"
    if name in _NUMERIC:
        return _numeric(arguments)
    if name not in _PLAIN:
        raise _unsupported(column, tokens)
    return _PLAIN[name]


def _length(arguments: list[str], otherwise: int, greatest: int, kind: str) -> int:
    if not arguments:
        return otherwise
    if arguments == ["MAX"]:
        return greatest
    length = int(arguments[0])
    if not 0 < length <= greatest:
        message = f"length for type {kind} " + ("must be at least 1" if length < 1 else f"cannot exceed {greatest}")
        raise refuse(message, sqlstate="22023")
    return length


def _numeric(arguments: list[str]) -> str:
    precision = int(arguments[0]) if arguments else _PRECISION
    scale = int(arguments[1]) if len(arguments) > 1 else 0
    if not 0 < precision <= _PRECISION_MAX:
        message = f"NUMERIC precision {precision} must be between 1 and {_PRECISION_MAX}"
        raise refuse(message, sqlstate="22023")
    if not 0 <= scale <= min(precision, _SCALE_MAX):
        message = f"NUMERIC scale {scale} must be between 0 and precision {min(precision, _SCALE_MAX)}"
        raise refuse(message, sqlstate="22023")
    return f"numeric({precision},{scale})"


def _unsupported(column: str, tokens: Sequence[Token]) -> Exception:
    return refuse(f'Column "{column}" has unsupported type "{" ".join(token.text.lower() for token in tokens)}".')
