"""What a statement of the log does, as far as capture must know: which tables it touches, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.core.mysql.statements.alter_parts import read_alter_parts, tables_with_rows_elsewhere
from penstock.core.mysql.statements.sql_tokens import TableName, TokenReader, query_of, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

Action: TypeAlias = Literal[
    "create",
    "alter",
    "drop",
    "rename",
    "truncate",
    "create_index",
    "drop_index",
    "create_schema",
    "drop_schema",
    "alter_schema",
    "sequence",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class TransactionControl:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE or XA."""

    verb: str


@dataclass(frozen=True, slots=True)
class TableDdl:
    """A statement that the tracker must see.

    `tables` are the tables it changes, both names of a rename included, each
    with its schema or None where the statement leaves it to the default; empty
    for a whole schema (named in `schema`, "" for the default one) and for a
    statement we could not read (`action` "unknown"). Tables that are only looked
    at (LIKE, REFERENCES) are not among them.

    `renames`          pairs of the old and the new name, in the order in which they are done
    `replaces`         it says OR REPLACE: a table or schema of that name, and its rows, are gone
    `conditional`      it says IF EXISTS or IF NOT EXISTS, so it may have done nothing
    `column_renames`   pairs of a column's old and its new name, given all at once; "" for what is not readable
    `column_drops`     the columns that it drops
    `changes_rows`     rows come or go with no row event: TRUNCATE, partitions,
                       tablespaces, ALTER IGNORE, an engine that keeps none or those of others,
                       CREATE TABLE ... SELECT logged as a statement
    `partitions_if_exists`  those of a DROP PARTITION IF EXISTS: where none is there, `changes_rows` is not so
    `changes_columns`  False if the tables look afterwards as before
    """

    action: Action
    tables: tuple[TableName, ...] = ()
    schema: str = ""
    renames: tuple[tuple[TableName, TableName], ...] = ()
    replaces: bool = False
    conditional: bool = False
    column_renames: tuple[tuple[str, str], ...] = ()
    column_drops: tuple[str, ...] = ()
    changes_rows: bool = False
    changes_columns: bool = True
    partitions_if_exists: tuple[str, ...] = ()

    @property
    def leaves_tables(self) -> bool:
        """Whether it is about rows alone, as TRUNCATE and the work on tablespaces are."""
        return self.action in {"truncate", "alter"} and not self.changes_columns


@dataclass(frozen=True, slots=True)
class RowStatement:
    """Row changes logged as the statement that made them, so that nobody can say which rows they were.

    `tables` are the tables written and read; empty if we could not tell.
    """

    verb: str
    tables: tuple[TableName, ...]


@dataclass(frozen=True, slots=True)
class Harmless:
    """A statement that touches no table we could capture."""

    keyword: str


Statement: TypeAlias = TransactionControl | TableDdl | RowStatement | Harmless

_UNKNOWN = TableDdl("unknown")
_TRANSACTIONS = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA"})
_HARMLESS = frozenset({
    "ANALYZE", "BACKUP", "BINLOG", "CACHE", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "DEALLOCATE", "DENY", "DESC",
    "DESCRIBE", "DO", "EXECUTE", "EXPLAIN", "FLUSH", "GET", "GRANT", "HANDLER", "HELP", "INSTALL", "KILL", "LOCK",
    "OPTIMIZE", "PREPARE", "PURGE", "REPAIR", "RESET", "RESIGNAL", "RESTART", "REVOKE", "SET", "SHOW", "SHUTDOWN",
    "SIGNAL", "STOP", "UNINSTALL", "UNLOCK", "USE"
})  # fmt: skip
_HARMLESS_OBJECTS = frozenset({
    "EVENT", "FUNCTION", "INSTANCE", "LIBRARY", "LOGFILE", "PACKAGE", "PREPARE", "PROCEDURE", "RESOURCE", "ROLE",
    "SERVER", "TABLESPACE", "TRIGGER", "UNDO", "USER", "VIEW", "REFERENCE"
})  # fmt: skip
_OBJECTS = _HARMLESS_OBJECTS | {"TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA", "SEQUENCE"}
_ROW_VERBS = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "SELECT", "WITH", "CALL"})
WRITE_MODIFIERS = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO"})
_ALTER_OPTIONS = frozenset({"INSTANT", "INPLACE", "NOCOPY", "COPY", "NONE", "SHARED", "EXCLUSIVE"})
_REFERENCE_ENDS = frozenset({"SET", "WHERE", "ORDER", "LIMIT", "RETURNING"})
_NO_REFERENCE_ENDS = frozenset({("CHARACTER", "SET"), ("CHAR", "SET"), ("FOR", "ORDER")})


def classify(sql: str, sql_mode: int = 0) -> Statement:
    """Say what `sql` of a session with `sql_mode` does. Takes any text and never raises.

    What cannot be read is Harmless only if its first keyword touches no table;
    else it is a TableDdl with action "unknown".
    """
    reader = TokenReader(read_tokens(sql, sql_mode))
    if not seek_verb(reader):
        return Harmless("SET")
    verb = reader.peek()
    if verb in _TRANSACTIONS or (verb == "START" and reader.peek(1) == "TRANSACTION"):
        return TransactionControl(verb)
    if verb in _HARMLESS or verb == "START" or not reader.tokens:
        return Harmless(verb)
    if verb in _ROW_VERBS:
        return RowStatement(verb, _written_tables(reader))
    reader.at += 1
    read = _READERS.get(verb)
    return read(reader) if read else _UNKNOWN


def seek_verb(reader: TokenReader) -> bool:
    """Step over SET STATEMENT ... FOR, and MariaDB's ANALYZE of what is executed; False if SET has no FOR."""
    if reader.skip("SET", "STATEMENT") and not reader.seek("FOR"):
        return False
    analyzed = TokenReader(reader.tokens, reader.at)
    if analyzed.skip("ANALYZE") and analyzed.skip("FORMAT", "="):
        analyzed.at += 1
    if analyzed.peek() in _ROW_VERBS:
        reader.at = analyzed.at
    return True


def for_tracker(sql: str, sql_mode: int = 0) -> str:
    """Rewrite `sql` for a server that has the tables but not the rows, the load or the engines of the source.

    ALGORITHM and LOCK become DEFAULT, because what the source could do in place
    may need a copy elsewhere; MySQL's `START TRANSACTION` at the end of a CREATE
    TABLE (its mark of an atomic CREATE TABLE ... SELECT) goes.
    """
    tokens = read_tokens(sql, sql_mode)
    pieces, done = [], 0
    for index, token in enumerate(tokens):
        if token.upper in {"ALGORITHM", "LOCK"} and index + 1 < len(tokens):
            value = index + 2 if tokens[index + 1].upper == "=" else index + 1
            if value < len(tokens) and tokens[value].upper in _ALTER_OPTIONS:
                pieces += [sql[done : tokens[value].start], "DEFAULT"]
                done = tokens[value].end
    is_create = bool(tokens) and tokens[0].upper == "CREATE"
    ends_in_transaction = is_create and [token.upper for token in tokens[-2:]] == ["START", "TRANSACTION"]
    return "".join([*pieces, sql[done : tokens[-2].start if ends_in_transaction else len(sql)]])


def _find_object(reader: TokenReader) -> str:
    """Step over what may stand before the kind of thing (OR REPLACE, DEFINER=..., UNIQUE) and over the kind."""
    while not reader.is_done:
        word = reader.peek()
        reader.at += 1
        if word in _OBJECTS:
            return word
    return ""


def _read_create(reader: TokenReader) -> Statement:
    replaces = reader.peek() == "OR"
    start = reader.at
    kind = _find_object(reader)
    temporary = any(token.upper == "TEMPORARY" for token in reader.tokens[start : reader.at])
    if kind in _HARMLESS_OBJECTS or (temporary and kind == "TABLE"):
        return Harmless(f"CREATE {kind}")
    conditional = reader.skip("IF", "NOT", "EXISTS")
    if kind in {"DATABASE", "SCHEMA"}:
        name = reader.take_identifier() or ""
        return TableDdl("create_schema", schema=name, replaces=replaces, conditional=conditional)
    if kind == "INDEX":
        return _index_ddl(reader, "create_index", conditional=conditional)
    table = reader.take_table()
    if table is None or kind not in {"TABLE", "SEQUENCE"}:
        return _UNKNOWN
    if kind == "SEQUENCE":
        return TableDdl("sequence", (table,), conditional=conditional)
    has_query = bool(query_of(reader.tokens))
    is_elsewhere, others = (False, ()) if has_query else tables_with_rows_elsewhere(reader)
    tables, changes_rows = (table, *others), has_query or is_elsewhere
    return TableDdl("create", tables, replaces=replaces, conditional=conditional, changes_rows=changes_rows)


def _read_drop(reader: TokenReader) -> Statement:
    start = reader.at
    kind = _find_object(reader)
    temporary = any(token.upper == "TEMPORARY" for token in reader.tokens[start : reader.at])
    if kind in _HARMLESS_OBJECTS or temporary:
        return Harmless(f"DROP {kind}")
    conditional = reader.skip("IF", "EXISTS")
    match kind:
        case "DATABASE" | "SCHEMA":
            return TableDdl("drop_schema", schema=reader.take_identifier() or "", conditional=conditional)
        case "INDEX":
            return _index_ddl(reader, "drop_index", conditional=conditional)
        case "TABLE" | "TABLES" | "SEQUENCE":
            tables = _table_list(reader)
            action: Action = "sequence" if kind == "SEQUENCE" else "drop"
            return TableDdl(action, tables, conditional=conditional) if tables else _UNKNOWN
        case _:
            return _UNKNOWN


def _read_alter(reader: TokenReader) -> Statement:
    start = reader.at
    kind = _find_object(reader)
    # MariaDB drops what a new key has twice, and logs no row of it.
    drops_rows = any(token.upper == "IGNORE" for token in reader.tokens[start : reader.at])
    if kind in _HARMLESS_OBJECTS:
        return Harmless(f"ALTER {kind}")
    conditional = reader.skip("IF", "EXISTS")
    if kind in {"DATABASE", "SCHEMA"}:
        return TableDdl("alter_schema", schema=_altered_schema(reader))
    table = reader.take_table()
    if table is None or kind not in {"TABLE", "SEQUENCE"}:
        return _UNKNOWN
    if kind == "SEQUENCE":
        return TableDdl("sequence", (table,), conditional=conditional)
    parts = read_alter_parts(reader)
    return TableDdl(
        "alter",
        (table, *parts.tables, *parts.names),
        renames=tuple((table, name) for name in parts.names),
        conditional=conditional,
        column_renames=parts.column_renames,
        column_drops=parts.column_drops,
        changes_rows=parts.changes_rows or drops_rows,
        changes_columns=not parts.only_rows,
        partitions_if_exists=parts.partitions_if_exists,
    )


def _maybe(table: TableName | None) -> list[TableName]:
    return [] if table is None else [table]


def _altered_schema(reader: TokenReader) -> str:
    """The schema's name; "" where ALTER DATABASE goes on with its first option at once."""
    options = frozenset({"DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT", "ENCRYPTION", "READ", "UPGRADE"})
    return "" if reader.peek() in options else reader.take_identifier() or ""


def _index_ddl(reader: TokenReader, action: Literal["create_index", "drop_index"], *, conditional: bool) -> TableDdl:
    name = reader.take_identifier() or ""
    table = reader.take_table() if reader.seek("ON") else None
    # The index called PRIMARY is the primary key.
    drops_key = action == "drop_index" and name.upper() == "PRIMARY"
    return _UNKNOWN if table is None else TableDdl(action, (table,), conditional=conditional, changes_columns=drops_key)


def _read_rename(reader: TokenReader) -> Statement:
    if not (reader.skip("TABLE") or reader.skip("TABLES")):
        return Harmless("RENAME USER") if reader.peek() == "USER" else _UNKNOWN
    conditional = reader.skip("IF", "EXISTS")
    tables: list[TableName] = []
    while True:
        before = reader.take_table()
        after = reader.take_table() if reader.seek("TO") else None
        if before is None or after is None:
            return _UNKNOWN
        tables += [before, after]
        if not reader.skip(","):
            pairs = tuple(zip(tables[::2], tables[1::2], strict=True))
            return TableDdl("rename", tuple(tables), renames=pairs, conditional=conditional)


def _read_truncate(reader: TokenReader) -> Statement:
    reader.skip("TABLE")
    table = reader.take_table()
    return _UNKNOWN if table is None else TableDdl("truncate", (table,), changes_rows=True, changes_columns=False)


def _table_list(reader: TokenReader) -> tuple[TableName, ...]:
    tables: list[TableName] = []
    while (table := reader.take_table()) is not None:
        tables.append(table)
        if not reader.skip(","):
            break
    return tuple(tables)


def _written_tables(reader: TokenReader) -> tuple[TableName, ...]:
    verb = reader.peek()
    reader.at += 1
    match verb:
        case "INSERT" | "REPLACE":
            reader.skip_any(WRITE_MODIFIERS)
            return tuple(_maybe(reader.take_table()))
        case "LOAD":
            return tuple(_maybe(reader.take_table())) if reader.seek("INTO", "TABLE") else ()
        case "UPDATE" | "DELETE":
            reader.skip_any(WRITE_MODIFIERS)
            return _references(reader)
        case _:
            return ()


def _references(reader: TokenReader) -> tuple[TableName, ...]:
    """Every table between the verb of an UPDATE or DELETE and what ends its references; () if one is a query."""
    tables: list[TableName] = []
    expects = True
    while not reader.is_done and not _ends_references(reader):
        if reader.peek() == "SELECT":
            return ()
        if reader.peek() in {",", "JOIN", "STRAIGHT_JOIN", "FROM", "USING"}:
            expects = True
            reader.at += 1
        elif expects and reader.peek() != "(" and (table := reader.take_table()):
            tables.append(table)
            expects = False
        else:
            reader.at += 1
    return tuple(dict.fromkeys(tables))


def _ends_references(reader: TokenReader) -> bool:
    """Whether a word ends them: not SET in CHARACTER SET, nor ORDER in an index hint's FOR ORDER BY."""
    before = reader.tokens[reader.at - 1].upper
    return reader.peek() in _REFERENCE_ENDS and (before, reader.peek()) not in _NO_REFERENCE_ENDS


_READERS: dict[str, Callable[[TokenReader], Statement]] = {
    "CREATE": _read_create,
    "DROP": _read_drop,
    "ALTER": _read_alter,
    "RENAME": _read_rename,
    "TRUNCATE": _read_truncate,
}
