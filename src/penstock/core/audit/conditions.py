"""A condition on the rows that count, in the source's SQL, and the same in the target's."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from penstock.core.audit.dialects import AuditDialect

_PARSED_AS: Final = {"mariadb": "mysql", "delta": "duckdb", "parquet": "duckdb"}
"""What sqlglot calls a dialect, where it has another name for it."""
_RUN_COMMENT: Final = re.compile(r"/\*M?!")
_OF_A_SELECT: Final = frozenset({"kind", "expressions", "where"})
_HINT: Final = "write what could stand behind WHERE in the source, of this table's columns: placed_at >= '2026-01-01'"


def translate_condition(
    text: str, dialects: tuple[AuditDialect, AuditDialect], names: Mapping[str, tuple[str, str]]
) -> tuple[str, str]:
    """Return the condition `text`, which is SQL of the first dialect, for both sides; "" for "".

    `names` has the names of the columns that are compared, on both sides, by those
    in small letters. Raises UsageError for what is no condition, for one that reads
    other tables, and for one on a column that is not compared.
    """
    if not text:
        return "", ""
    condition = parse_condition(text, dialects[0].name)
    # The line's end ends a comment, too.
    return f"({text}\n)", _write(condition, dialects[1], {name: theirs for name, (_, theirs) in names.items()})


def parse_condition(text: str, dialect: str) -> exp.Expression:
    """Read what could stand behind WHERE in SQL of `dialect`. Raises UsageError for what is more, or no condition."""
    # Imported here as it is slow to import, and few audits have a condition.
    import sqlglot  # noqa: PLC0415
    from sqlglot import errors, exp  # noqa: PLC0415

    if _RUN_COMMENT.search(text):
        message = f"an audit's condition has a comment that MySQL runs, and nobody else does: {text}"
        raise UsageError(message, _HINT)
    try:
        parsed = sqlglot.parse_one(f"SELECT 1 WHERE {text}", read=_PARSED_AS.get(dialect, dialect))
    except errors.SqlglotError as error:
        message = f"an audit's condition is not understood: {text}: {str(error).splitlines()[0]}"
        raise UsageError(message, _HINT) from error
    where = parsed.args.get("where") if isinstance(parsed, exp.Select) else None
    is_more = any(each for name, each in parsed.args.items() if name not in _OF_A_SELECT)
    reads_more = parsed.find(exp.AggFunc, exp.Parameter, exp.Placeholder) or len(list(parsed.find_all(exp.Query))) > 1
    if where is None or is_more or reads_more:
        message = f"an audit's condition is more than a condition on columns: {text}"
        raise UsageError(message, _HINT)
    condition: exp.Expression = where.this
    return condition


def _write(condition: exp.Expression, dialect: AuditDialect, names: Mapping[str, str]) -> str:
    from sqlglot import errors, exp  # noqa: PLC0415 - as above

    for column in condition.find_all(exp.Column):
        if column.name.casefold() not in names or column.table:
            message = f"an audit's condition names {column.sql()}, which is no column that is compared"
            raise UsageError(
                message,
                "name columns that both sides have, that nothing treats or leaves out, and no arrays or geometries",
            )
        column.set("this", exp.to_identifier(names[column.name.casefold()], quoted=True))
    write = partial(condition.sql, unsupported_level=errors.ErrorLevel.RAISE, comments=False)
    try:
        written = write(dialect=_PARSED_AS.get(dialect.name, dialect.name))
    except errors.UnsupportedError as error:
        message = f"an audit's condition cannot be written for {dialect.name}: {error}"
        raise UsageError(message, "write it with what both databases have") from error
    return f"({written})"
