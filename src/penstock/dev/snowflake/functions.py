"""Functions that fakesnow does not know, as ones that it does.

Source: Snowflake SQL reference, "TO_DECIMAL, TO_NUMBER, TO_NUMERIC" (a format of X is of hexadecimal
digits), "OCTET_LENGTH" and "TO_CHAR" (of moments, with as many digits as the format says).
"""

from __future__ import annotations

import re
from typing import Final

import sqlglot
from sqlglot import exp

_USED: Final = re.compile(r"'X+'|OCTET_LENGTH|SS\.FF6'", re.IGNORECASE)
_MOMENTS: Final = "YYYY-MM-DD HH24:MI:SS.FF6"


def replace_functions(command: str) -> str:
    """Return a command with other functions in their places."""
    if not _USED.search(command):
        return command
    return sqlglot.parse_one(command, read="snowflake").transform(_replaced).sql(dialect="snowflake")


def _replaced(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.ToNumber) and re.fullmatch("X+", str(node.args.get("format") or "").strip("'")):
        # What is put in a node's place is not looked into.
        digits = node.this.transform(_replaced)
        return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=digits), "BIGINT")
    if isinstance(node, exp.ToChar) and str(node.args.get("format") or "").strip("'") == _MOMENTS:
        moment = exp.cast(node.this, "TIMESTAMP_NTZ", dialect="snowflake")
        return exp.Anonymous(this="STRFTIME", expressions=[moment, exp.Literal.string("%Y-%m-%d %H:%M:%S.%f")])
    if isinstance(node, exp.ByteLength):
        return exp.Anonymous(this="STRLEN", expressions=[node.this])
    if isinstance(node, exp.Anonymous) and node.name.upper() == "OCTET_LENGTH":
        return exp.Anonymous(this="STRLEN", expressions=node.expressions)
    return node
