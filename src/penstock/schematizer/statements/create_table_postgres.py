"""From PostgreSQL's statements to the schema of the table that they make.

One CREATE TABLE, with what belongs to it before and behind: CREATE TYPE and
CREATE DOMAIN, COMMENT ON, and the ALTER TABLE in which pg_dump writes a primary
key, defaults and identities. Other statements of a dump that do not change the
table's columns are passed over; everything else is refused.
Source: PostgreSQL 17 documentation, "CREATE TABLE" and "ALTER TABLE".
"""

from __future__ import annotations

from dataclasses import replace

from penstock.core.tables import Column, TableId, TableSchema
from penstock.schematizer.statements.postgres_columns import read_column
from penstock.schematizer.statements.postgres_types import PRINTED, DeclaredType, KnownTypes, enum_type
from penstock.schematizer.statements.sql_words import WordReader, refuse_statement, split_at, split_words

_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE")
_PASSED_OVER = ("SET", "SELECT", "GRANT", "REVOKE", "BEGIN", "COMMIT", "START")
_PASSED_OVER_THINGS = ("INDEX", "UNIQUE", "SEQUENCE", "SCHEMA", "EXTENSION", "TYPE", "DOMAIN", "TRIGGER", "STATISTICS")
_CHANGES_COLUMNS = ("RENAME", "DROP", "INHERIT", "ATTACH", "OF")


def parse_postgres_table(sql: str) -> TableSchema:
    """Return the one table that `sql` makes. Raises RefusedError, with line and column, for anything else."""
    script = _Script(sql)
    for words in split_at(split_words(sql, "postgres"), ";"):
        if words:
            script.run(WordReader(sql, words))
    return script.table()


class _Script:
    """What the statements have made so far."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._types = KnownTypes()
        self._name: TableId | None = None
        self._columns: dict[str, Column] = {}
        self._key: tuple[str, ...] = ()
        self._comment = ""

    def table(self) -> TableSchema:
        """Return the table; RefusedError if there is none."""
        if self._name is None:
            refuse_statement("there is no CREATE TABLE in it")
        columns = tuple(
            replace(column, nullable=column.nullable and column.name not in self._key)
            for column in self._columns.values()
        )
        return TableSchema(self._name, columns, self._key, self._comment)

    def run(self, reader: WordReader) -> None:
        """Take one statement."""
        if reader.take_if("CREATE"):
            self._create(reader)
        elif reader.take_if("COMMENT", "ON"):
            self._comment_on(reader)
        elif reader.take_if("ALTER"):
            self._alter(reader)
        elif not reader.peek().is_word(*_PASSED_OVER):
            reader.refuse("this statement does not belong to a table")

    def _create(self, reader: WordReader) -> None:
        if reader.take_if("TYPE"):
            self._create_type(reader)
        elif reader.take_if("DOMAIN"):
            self._create_domain(reader)
        elif reader.peek().is_word(*_PASSED_OVER_THINGS):
            return
        else:
            reader.take_if("UNLOGGED")
            if not reader.take_if("TABLE"):
                reader.refuse("it does not make a table of its own")
            self._create_table(reader)

    def _create_type(self, reader: WordReader) -> None:
        name = reader.path()[-1]
        if not reader.take_if("AS", "ENUM"):
            # A composite, a range or a type in C: PostgreSQL prints its values.
            self._types.declared[name] = DeclaredType(PRINTED)
            return
        inner, labels = reader.inner(), []
        while not inner.is_at_end:
            if inner.peek().kind != "text":
                inner.refuse("there should be a label in quotes")
            labels.append(inner.take().text)
            if not inner.is_at_end:
                inner.expect(",")
        self._types.declared[name] = enum_type(tuple(labels))

    def _create_domain(self, reader: WordReader) -> None:
        name = reader.path()[-1]
        reader.take_if("AS")
        column = read_column(name, reader, self._types)[0]
        self._types.declared[name] = DeclaredType(
            column.type, not column.nullable, column.default, column.default_is_expression
        )

    def _create_table(self, reader: WordReader) -> None:
        if self._name is not None:
            reader.refuse("there is more than one CREATE TABLE")
        reader.take_if("IF", "NOT", "EXISTS")
        path = reader.path()
        if len(path) != 2:  # noqa: PLR2004 - schema and table
            reader.refuse(f"{'.'.join(path)} does not say which schema it is in", "write CREATE TABLE schema.name")
        self._name = TableId(*path)
        if not reader.peek().is_word("("):
            reader.refuse("it does not list columns of its own")
        inner = reader.in_parentheses()
        for words in split_at(inner, ","):
            if not words:
                reader.refuse("there is a comma without a column, or no column at all")
            self._element(WordReader(self._sql, words))
        if reader.peek().is_word("INHERITS"):
            reader.refuse("it has columns of another table", "send the table with all of its columns")

    def _element(self, reader: WordReader) -> None:
        if reader.peek().is_word("LIKE"):
            reader.refuse("it has columns of another table", "send the table with all of its columns")
        if reader.peek().is_word(*_CONSTRAINTS):
            self._constraint(reader)
            return
        name = reader.name()
        if name in self._columns:
            reader.refuse(f"there are two columns {name!r}")
        self._columns[name], is_key = read_column(name, reader, self._types)
        if is_key:
            self._key = (name,)

    def _constraint(self, reader: WordReader) -> None:
        if reader.take_if("CONSTRAINT"):
            reader.name()
        if reader.take_if("PRIMARY", "KEY"):
            if reader.peek().is_word("USING"):
                reader.refuse("its key is that of an index", "write the key's columns: PRIMARY KEY (id)")
            key = reader.names_in_parentheses()
            for column in key:
                self._known(column, reader)
            self._key = key

    def _comment_on(self, reader: WordReader) -> None:
        what = reader.take()
        if not what.is_word("TABLE", "COLUMN"):
            return
        path = reader.path()
        reader.expect("IS")
        if reader.peek().kind != "text" and not reader.peek().is_word("NULL"):
            reader.refuse("there should be a text in quotes, or NULL")
        word = reader.take()
        comment = word.text if word.kind == "text" else ""
        if what.is_word("TABLE"):
            self._require_name(path, reader)
            self._comment = comment
        else:
            self._require_name(path[:-1], reader)
            self._columns[path[-1]] = replace(self._known(path[-1], reader), comment=comment)

    def _alter(self, reader: WordReader) -> None:
        if not reader.take_if("TABLE"):
            return
        for word in (("IF", "EXISTS"), ("ONLY",)):
            reader.take_if(*word)
        self._require_name(reader.path(), reader)
        for words in split_at(reader.rest(), ","):
            self._alteration(WordReader(self._sql, words))

    def _alteration(self, reader: WordReader) -> None:
        if reader.peek().is_word(*_CHANGES_COLUMNS):
            reader.refuse("it changes the table's columns", "send the table as it is now")
        if reader.take_if("ADD"):
            if not reader.peek().is_word(*_CONSTRAINTS):
                reader.refuse("it changes the table's columns", "send the table as it is now")
            self._constraint(reader)
        elif reader.take_if("ALTER"):
            reader.take_if("COLUMN")
            name = reader.name()
            self._columns[name] = self._altered(self._known(name, reader), reader)

    def _altered(self, column: Column, reader: WordReader) -> Column:
        if reader.take_if("SET", "NOT", "NULL"):
            return replace(column, nullable=False)
        if reader.take_if("SET", "DEFAULT") or reader.take_if("ADD", "GENERATED"):
            return replace(column, default=None, default_is_expression=True)
        if reader.peek().is_word("TYPE", "DROP") or (reader.peek().is_word("SET") and reader.peek(1).is_word("DATA")):
            reader.refuse("it changes a column", "send the table as it is now")
        return column

    def _known(self, name: str, reader: WordReader) -> Column:
        if name not in self._columns:
            reader.refuse(f"the table has no column {name!r}")
        return self._columns[name]

    def _require_name(self, path: tuple[str, ...], reader: WordReader) -> None:
        if self._name is None or path != (self._name.schema, self._name.name):
            reader.refuse(f"{'.'.join(path)} is not the table of this text", "send one table, its name with its schema")
