"""What the comma-separated parts of an ALTER TABLE do, each read by its first words."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.mysql.statements.sql_tokens import TableName, TokenReader

_ROWS_NOWHERE = frozenset({"BLACKHOLE"})
_ROWS_ELSEWHERE = frozenset({"CONNECT", "FEDERATED", "MERGE", "MRG_MYISAM", "SPIDER"})
_DROPPED_OTHERS = frozenset({"CHECK", "CONSTRAINT", "FOREIGN", "INDEX", "KEY", "PARTITION", "PRIMARY"})


@dataclass(frozen=True, slots=True)
class AlterParts:
    """The other tables that an ALTER TABLE names, the names that it gives its own, and the rest as `TableDdl` has it.

    `only_rows` says that the table looks afterwards as before. `partitions_if_exists` are those that it drops if
    they are there: where none is, no row goes.
    """

    tables: tuple[TableName, ...]
    names: tuple[TableName, ...]
    column_renames: tuple[tuple[str, str], ...]
    column_drops: tuple[str, ...]
    changes_rows: bool
    only_rows: bool
    partitions_if_exists: tuple[str, ...] = ()


def read_alter_parts(reader: TokenReader) -> AlterParts:
    """Read what follows the table's name."""
    tables, names = list[TableName](), list[TableName]()
    renames, drops = list[tuple[str, str]](), list[str]()
    only_rows, depth, begins = False, 0, True
    partitions = list[str]()
    if reader.skip("WAIT"):
        reader.at += 1
    reader.skip("NOWAIT")
    changes_rows, merged = _read_options(reader, _ROWS_NOWHERE | _ROWS_ELSEWHERE)
    while not reader.is_done:
        if begins and depth == 0:
            renames += _renamed_column(reader)
            drops += _dropped_column(reader)
            partitions += _maybe_dropped_partitions(reader)
            changes_rows = changes_rows or _moves_rows(reader)
            only_rows = only_rows or _moves_tablespace(reader)
            tables += _other_table(reader)
            names += _new_name(reader)
        mark = reader.peek()
        depth += (mark == "(") - (mark == ")")
        begins = mark == ","
        reader.at += 1
    return AlterParts(
        (*tables, *merged),
        tuple(names),
        tuple(renames),
        tuple(drops),
        changes_rows,
        only_rows,
        tuple(partitions),
    )


def _renamed_column(reader: TokenReader) -> list[tuple[str, str]]:
    part = TokenReader(reader.tokens, reader.at)
    if part.skip("RENAME", "COLUMN"):
        part.skip("IF", "EXISTS")
        before = part.take_identifier()
        after = part.take_identifier() if part.skip("TO") else None
    elif part.skip("CHANGE"):
        part.skip("COLUMN")
        part.skip("IF", "EXISTS")
        before, after = part.take_identifier(), part.take_identifier()
    else:
        return []
    # Names of columns are equal whatever their case; another case is another name to everyone who reads them.
    return [] if before == after and before is not None else [(before or "", after or "")]


def _dropped_column(reader: TokenReader) -> list[str]:
    part = TokenReader(reader.tokens, reader.at)
    if not part.skip("DROP") or part.peek() in _DROPPED_OTHERS:
        return []
    part.skip("COLUMN")
    part.skip("IF", "EXISTS")
    name = part.take_identifier()
    return [] if name is None else [name]


def _maybe_dropped_partitions(reader: TokenReader) -> list[str]:
    part = TokenReader(reader.tokens, reader.at)
    if not part.skip("DROP", "PARTITION", "IF", "EXISTS"):
        return []
    names = [part.take_identifier() or ""]
    while part.skip(","):
        names.append(part.take_identifier() or "")
    return names


def _moves_rows(reader: TokenReader) -> bool:
    first, second = reader.peek(), reader.peek(1)
    if first in {"DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT"}:
        return second in {"PARTITION", "TABLESPACE"}
    return first == "CONVERT" and second in {"PARTITION", "TABLE"}


def tables_with_rows_elsewhere(reader: TokenReader) -> tuple[bool, tuple[TableName, ...]]:
    """Read what follows the name of a new table: whether it shows rows of others, and which of this server they are of.

    A table that throws its rows away is none: its log is what it is for.
    """
    return _read_options(reader, _ROWS_ELSEWHERE)


def _read_options(reader: TokenReader, engines: frozenset[str]) -> tuple[bool, tuple[TableName, ...]]:
    """Read on outside of parentheses: whether an option has rows come or go, as one of `engines` does, and of whom."""
    part = TokenReader(reader.tokens, reader.at)
    tables, depth, changes_rows = list[TableName](), 0, False
    while not part.is_done:
        if depth == 0:
            merged = _merged_tables(part)
            tables += merged
            changes_rows = changes_rows or bool(merged) or _engine(part) in engines
        mark = part.peek()
        depth += (mark == "(") - (mark == ")")
        part.at += 1
    return changes_rows, tuple(tables)


def _engine(reader: TokenReader) -> str:
    """The engine that a table option gives the table; "" where there is another word."""
    part = TokenReader(reader.tokens, reader.at)
    if not part.skip("ENGINE"):
        return ""
    part.skip("=")
    return "" if part.is_done else part.tokens[part.at].value.upper()


def _merged_tables(reader: TokenReader) -> list[TableName]:
    """The tables of a MERGE table's option UNION: what is written by way of it is logged under its own name."""
    part = TokenReader(reader.tokens, reader.at)
    if not part.skip("UNION"):
        return []
    part.skip("=")
    tables = list[TableName]()
    while part.peek() in {"(", ","}:
        part.at += 1
        if table := part.take_table():
            tables.append(table)
    return tables


def _moves_tablespace(reader: TokenReader) -> bool:
    return reader.peek() in {"DISCARD", "IMPORT"} and reader.peek(1) in {"PARTITION", "TABLESPACE"}


def _new_name(reader: TokenReader) -> list[TableName]:
    """The name after RENAME TO."""
    part = TokenReader(reader.tokens, reader.at)
    if not part.skip("RENAME") or part.peek() in {"COLUMN", "INDEX", "KEY", "CONSTRAINT", "PARTITION"}:
        return []
    part.skip_any(frozenset({"TO", "AS", "="}))
    table = part.take_table()
    return [] if table is None else [table]


def _other_table(reader: TokenReader) -> list[TableName]:
    """The second table of EXCHANGE PARTITION ... WITH TABLE and CONVERT PARTITION/TABLE."""
    part = TokenReader(reader.tokens, reader.at)
    moves = part.peek() in {"EXCHANGE", "CONVERT"} and part.peek(1) in {"PARTITION", "TABLE"}
    table = part.take_table() if moves and part.seek("TABLE") else None
    return [] if table is None else [table]
