"""What `penstock audit --stages` prints of topics and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.findings import StagedRow, TableFindings

_SHOWN_ROWS = 20


def refuse_without_file() -> NoReturn:
    """Say that two tables by URL have nothing between them."""
    from penstock.core.errors import UsageError  # noqa: PLC0415 - `audit --help` need not wait for it

    message = "--stages and --repair are for a pipeline's tables, and no FILE is given"
    raise UsageError(message, "give the pipeline's FILE: penstock audit FILE --stages")


def stage_lines(table: TableFindings) -> Sequence[str]:
    """Say how each stage of a table is, and of each wrong row where it is wrong first."""
    if table.stages is None:
        return []
    lines = []
    for stage, found in table.stages.stages:
        wrong = f", {found.wrong_rows:,} wrong row(s)" if found.wrong_rows else ""
        why = f": {found.why}" if found.why else ""
        lines.append(f"{table.table} in its {stage}: {found.state}{wrong}{why}")
        lines += [f"{table.table}.{each.column} is not compared there: {each.why}" for each in found.not_compared]
    rows = table.stages.rows
    lines += [f"{table.table} {_row_line(table, row)}" for row in rows[:_SHOWN_ROWS]]
    if len(rows) > _SHOWN_ROWS:
        lines.append(f"{table.table}: the stages of {len(rows) - _SHOWN_ROWS} more wrong rows: see --json")
    return lines


def _row_line(table: TableFindings, row: StagedRow) -> str:
    names = table.key or tuple("" for _ in row.key)
    key = ", ".join(f"{name} {text}".strip() for name, text in zip(names, row.key, strict=True))
    doubt = f" or before: {' and '.join(row.unknown_in)} no longer has it" if row.unknown_in else ""
    message = row.message
    if message is None:
        return f"{key}: wrong first in the {row.first_wrong}{doubt}; no message of it is kept"
    place = f", from {message.position}" if message.position else ""
    where = f"{message.topic}/{message.partition} offset {message.offset}"
    return f"{key}: wrong first in the {row.first_wrong}{doubt}; its newest message is {where} ({message.op}{place})"
