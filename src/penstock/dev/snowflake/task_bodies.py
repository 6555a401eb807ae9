"""What a task runs: one statement, or a block of them.

Source: Snowflake SQL reference, "CREATE TASK"; Snowflake Scripting developer guide,
"Understanding blocks" and "Working with transactions". Of Scripting there are blocks
of plain statements alone, with a handler that rolls back and raises.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.dev.snowflake.refusals import RefusedError

_NO_SQL: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Where a semicolon is none."""
_BLOCK: Final = re.compile(r"\s*BEGIN\s+(?!(?:TRANSACTION|WORK|NAME)\b)", re.IGNORECASE)
_END: Final = re.compile(
    r"(?:\bEXCEPTION\s+WHEN\s+OTHER\s+THEN\s+ROLLBACK\s*;\s*RAISE\s*;\s*)?\bEND\s*;?\s*$", re.IGNORECASE
)
_PLAIN: Final = re.compile(
    r"(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|CREATE|DROP|ALTER|SELECT|BEGIN\s+TRANSACTION|COMMIT)\b", re.IGNORECASE
)


def parse_body(text: str) -> list[str]:
    """Return the statements of a task's body. RefusedError for several without a block, and for other blocks."""
    words = _NO_SQL.sub(lambda match: " " * len(match[0]), text)
    begin, end = _BLOCK.match(words), _END.search(words)
    if begin is None:
        if ";" in words.rstrip().rstrip(";"):
            message = "syntax error: a task runs one statement, or a block: BEGIN ... END"
            raise RefusedError(message)
        return [text.rstrip().rstrip(";")]
    if end is None:
        message = "syntax error: a block ends with END"
        raise RefusedError(message)
    statements, place = [], begin.end()
    for stop in (match.start() for match in re.finditer(";", words) if match.start() < end.start()):
        statements.append(text[place:stop].strip())
        place = stop + 1
    if words[place : end.start()].strip() or not all(_PLAIN.match(statement) for statement in statements):
        message = (
            "this stand-in knows blocks of plain statements alone, with EXCEPTION WHEN OTHER THEN ROLLBACK; RAISE;"
        )
        raise RefusedError(message)
    return statements
