"""From a CREATE TABLE statement of MySQL or MariaDB to the schema of the table.

The statement becomes the rows that the server would show in information_schema,
so that a table registered by its statement is the table that capture registers.
Source: MySQL Reference Manual, "CREATE TABLE Statement", and "Using Data Types
from Other Database Engines" for the synonyms. What is not said in the statement
is as in a new MySQL 8 server: the character set is utf8mb4.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from penstock.core.mysql.statements.describe import GEOMETRY_TYPES, ColumnRow, TableRow, describe_table
from penstock.core.tables import TableId
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableSchema

_DIALECT = "mysql"
_STATEMENT_KIND = "TABLE"
_SINGLE_PRECISION_BITS_MAX = 24
_LENGTH_DIGITS_MAX = 18
_SYNONYMS = {
    "bool": "tinyint",
    "boolean": "tinyint",
    "char varying": "varchar",
    "character": "char",
    "character varying": "varchar",
    "dec": "decimal",
    "double precision": "double",
    "fixed": "decimal",
    "float4": "float",
    "float8": "double",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "integer": "int",
    "middleint": "mediumint",
    "numeric": "decimal",
    "real": "double",
}
_UNKNOWN_TO_THE_PARSER = (GEOMETRY_TYPES | {"inet4", "inet6"}) - {"geometry"}
_STANDS_IN = "uuid"
_LENGTHS = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1, "long": 2**32 - 1}
_LENGTH_OF_TYPE = {f"{size}{kind}": length for size, length in _LENGTHS.items() for kind in ("text", "blob")}
_CHARACTER_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_COUNTED_TYPES = frozenset({"char", "varchar", "binary", "varbinary"})


def parse_create_table(sql: str) -> TableSchema:
    """Return the table that `sql`, one CREATE TABLE statement with a qualified name, makes.

    Raises RefusedError, with the line and column of a mistake, for anything else.
    """
    statement = _parse_statement(sql)
    schema, properties = statement.this, statement.args.get("properties")
    table = schema.this
    if not table.db or table.catalog:
        _refuse(f"{table.sql(_DIALECT)} does not say which database it is in", "write CREATE TABLE database.name")
    definitions = [_column_definition(part) for part in schema.expressions if not _is_constraint(part)]
    words = _type_words(sql, definitions)
    charset = _table_charset(properties)
    key = _primary_key(schema.expressions, [definition.name for definition in definitions])
    rows = [
        _Definition(definition, word, charset).row(in_key=definition.name in key)
        for definition, word in zip(definitions, words, strict=True)
    ]
    comment = properties.find(exp.SchemaCommentProperty) if properties else None
    row = TableRow(TableId(table.db, table.name), "BASE TABLE", comment.name if comment else "")
    return describe_table(row, rows, key, "mysql")


def _parse_statement(sql: str) -> exp.Create:
    try:
        statements = sqlglot.parse(_with_known_types(sql), dialect=_DIALECT)
    except ParseError as error:
        where = error.errors[0]
        _refuse(f"line {where['line']}, column {where['col']}, at {where['highlight']!r}: {where['description']}")
    except TokenError as error:
        _refuse(str(error))
    except RecursionError:
        _refuse("it is nested too deeply")
    if len(statements) != 1 or not isinstance(statements[0], exp.Create):
        _refuse("it is not one CREATE TABLE statement")
    statement = statements[0]
    is_plain = statement.kind == _STATEMENT_KIND and isinstance(statement.this, exp.Schema)
    if not is_plain or statement.expression or statement.find(exp.TemporaryProperty):
        _refuse("it does not make a table of its own with the columns it lists")
    return statement


def _with_known_types(sql: str) -> str:
    """Return `sql`, every word at its place, with a type that the parser knows for each one that it does not.

    What a column's type really is, `_type_words` reads from the statement as it was sent.
    """
    tokens = sqlglot.tokenize(sql, dialect=_DIALECT)
    for before, name, token in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_type = before.text in {"(", ","} and name.text.isidentifier() | (sql[name.start] == "`")
        if is_type and sql[token.start : token.end + 1].lower() in _UNKNOWN_TO_THE_PARSER:
            sql = f"{sql[: token.start]}{_STANDS_IN.ljust(token.end + 1 - token.start)}{sql[token.end + 1 :]}"
    return sql


def _is_constraint(part: exp.Expr) -> bool:
    return isinstance(part, exp.Constraint | exp.PrimaryKey | exp.ForeignKey | exp.ColumnConstraintKind)


def _column_definition(part: exp.Expr) -> exp.ColumnDef:
    if not isinstance(part, exp.ColumnDef) or part.kind is None or "end" not in part.this.meta:
        _refuse(f"{part.sql(_DIALECT)!r} is not a column with a type")
    return part


def _type_words(sql: str, definitions: Sequence[exp.ColumnDef]) -> list[str]:
    """Return the word that follows each column's name, in lower case: the parser keeps no synonyms apart."""
    word_after = {}
    tokens = sqlglot.tokenize(sql, dialect=_DIALECT)
    for token, following in pairwise(tokens):
        # A quoted name's token may count its quotes in; its last character is in it in any case.
        word_after.update(dict.fromkeys(range(token.start, token.end + 1), following.text.lower()))
    return [word_after.get(definition.this.meta["end"], "") for definition in definitions]


def _table_charset(properties: exp.Expr | None) -> str:
    if properties is None:
        return "utf8mb4"
    charset = properties.find(exp.CharacterSetProperty)
    collation = properties.find(exp.CollateProperty)
    return _charset(charset, collation) or "utf8mb4"


def _charset(charset: exp.Expr | None, collation: exp.Expr | None) -> str:
    """Return the character set, which a collation begins with; "" where neither is said."""
    named = charset.this.name if charset else collation.this.name.partition("_")[0] if collation else ""
    return str(named).lower()


def _primary_key(parts: Sequence[exp.Expr], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the key's columns, in key order, as the columns spell themselves."""
    spelled = {column.lower(): column for column in columns}
    if len(spelled) < len(columns):
        _refuse("it has two columns of one name")
    named: list[str] = []
    for part in parts:
        if isinstance(part, exp.ColumnDef):
            named += [part.name for constraint in part.constraints if _is(constraint, exp.PrimaryKeyColumnConstraint)]
        elif (key := part.find(exp.PrimaryKey)) is not None:
            named += [column.find(exp.Identifier).name for column in key.expressions]
    for column in named:
        if column.lower() not in spelled:
            _refuse(f"its primary key has a column {column!r}, which it does not have")
    return tuple(spelled[column.lower()] for column in named)


class _Definition:
    """One column's definition, read as a row of information_schema."""

    def __init__(self, column: exp.ColumnDef, word: str, table_charset: str) -> None:
        self._column = column
        self._word = word
        self._table_charset = table_charset
        kind = column.kind
        self._numbers = [argument.name for argument in kind.expressions] if kind else []
        self._is_unsigned = kind is not None and kind.this.name.startswith("U")

    def row(self, *, in_key: bool) -> ColumnRow:
        """Return the row that the server would show."""
        not_null = self._constraint(exp.NotNullColumnConstraint)
        computed = self._constraint(exp.ComputedColumnConstraint)
        default, extra = self._default()
        comment = self._constraint(exp.CommentColumnConstraint)
        kind = self._kind()
        return ColumnRow(
            name=self._column.name,
            data_type=kind,
            column_type=self._declaration(kind),
            nullable=not in_key and (not_null is None or bool(not_null.args.get("allow_null"))),
            default=default,
            extra=extra,
            generation=computed.this.sql(_DIALECT) if computed else "",
            charset=self._charset() if kind in _CHARACTER_TYPES else "",
            characters_max=self._length(kind),
            fraction_digits=self._number(0, 0) if kind in {"time", "datetime", "timestamp"} else 0,
            comment=comment.name if comment else "",
        )

    def _kind(self) -> str:
        """Return the type's own name; a name no type has where the length would choose another type."""
        kind = _SYNONYMS.get(self._word, self._word)
        if kind == "float" and len(self._numbers) == 1 and self._number(0, 0) > _SINGLE_PRECISION_BITS_MAX:
            return "double"
        if kind in _LENGTH_OF_TYPE and self._numbers:
            return f"{kind}({self._numbers[0]})"
        return kind

    def _declaration(self, kind: str) -> str:
        """Return COLUMN_TYPE: the type with its numbers or labels, and whether it is unsigned."""
        if kind in {"enum", "set"}:
            return f"{kind}({','.join(_quoted(label) for label in self._numbers)})"
        numbers = self._numbers
        if kind == "decimal":
            numbers = [str(self._number(0, 10)), str(self._number(1, 0))]
        elif self._word in {"bool", "boolean"}:
            numbers = ["1"]
        elif kind in _COUNTED_TYPES:
            numbers = [str(self._number(0, 1))]
        is_unsigned = self._is_unsigned or self._constraint(exp.ZeroFillColumnConstraint)
        is_number = kind in {"decimal", "float", "double"} or kind.endswith("int")
        unsigned = " unsigned" if is_number and is_unsigned else ""
        return f"{kind}({','.join(numbers)}){unsigned}" if numbers and "(" not in kind else f"{kind}{unsigned}"

    def _length(self, kind: str) -> int:
        return self._number(0, 1) if kind in _COUNTED_TYPES else _LENGTH_OF_TYPE.get(kind, 0)

    def _charset(self) -> str:
        charset = self._constraint(exp.CharacterSetColumnConstraint)
        collation = self._constraint(exp.CollateColumnConstraint)
        return _charset(charset, collation) or self._table_charset

    def _default(self) -> tuple[str | None, str]:
        """Return COLUMN_DEFAULT and EXTRA as MySQL 8 shows them."""
        constraint = self._constraint(exp.DefaultColumnConstraint)
        computed = self._constraint(exp.ComputedColumnConstraint)
        if computed:
            return None, "STORED GENERATED" if computed.args.get("persisted") else "VIRTUAL GENERATED"
        if constraint is None or isinstance(constraint.this, exp.Null):
            return None, "auto_increment" if self._constraint(exp.AutoIncrementColumnConstraint) else ""
        return _constant(constraint.this)

    def _constraint(self, kind: type[exp.Expr]) -> exp.Expr | None:
        return next((each.kind for each in self._column.constraints if _is(each, kind)), None)

    def _number(self, index: int, default: int) -> int:
        if index >= len(self._numbers):
            return default
        text = self._numbers[index]
        if not (text.isascii() and text.isdecimal() and len(text) <= _LENGTH_DIGITS_MAX):
            _refuse(f"column {self._column.name!r}: {text!r} is not a length")
        return int(text)


def _constant(value: exp.Expr) -> tuple[str, str]:
    """Return a default's text, and "" if that is a constant or DEFAULT_GENERATED if it is an expression."""
    match value:
        case exp.Boolean():
            return str(int(value.this)), ""
        case exp.Literal():
            return value.name, ""
        case exp.Neg(this=exp.Literal() as positive):
            return f"-{positive.name}", ""
        case _:
            return value.sql(_DIALECT), "DEFAULT_GENERATED"


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _is(constraint: exp.Expr, kind: type[exp.Expr]) -> bool:
    return isinstance(constraint, exp.ColumnConstraint) and isinstance(constraint.kind, kind)


def _refuse(
    reason: str, hint: str = "send what SHOW CREATE TABLE prints, with the database before the name"
) -> NoReturn:
    raise RefusedError(Code.INVALID_TABLE, f"this CREATE TABLE cannot be registered: {reason}", hint)
