"""Functions that fakesnow does not know, as ones that it does.

Source: Snowflake SQL reference, "TO_DECIMAL, TO_NUMBER, TO_NUMERIC" (a format of X is of hexadecimal
digits) and "OCTET_LENGTH".
"""

from __future__ import annotations

import re
from typing import Final

import sqlglot
from sqlglot import exp

_USED: Final = re.compile(r"'X+'|OCTET_LENGTH", re.IGNORECASE)


def replace_functions(command: str) -> str:
    """Return a command with other functions in their places."""
    if not _USED.search(command):
        return command
    return sqlglot.parse_one(command, read="snowflake").transform(_replaced).sql(dialect="snowflake")


def _replaced(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.ToNumber) and re.fullmatch("X+", str(node.args.get("format") or "").strip("'")):
        return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=node.this), "BIGINT")
    if isinstance(node, exp.ByteLength):
        return exp.Anonymous(this="STRLEN", expressions=[node.this])
    if isinstance(node, exp.Anonymous) and node.name.upper() == "OCTET_LENGTH":
        return exp.Anonymous(this="STRLEN", expressions=node.expressions)
    return node
