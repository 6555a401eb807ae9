"""Random migrations of small tables: columns and tables come, go, and change names, types and defaults.

A source takes every statement, so that what is written depends on a seed alone.
Columns keep the first letter of their names, for rules that are by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: defaults, values of rows, and a type that can hold all of these, of whose values none is NULL."""

    defaults: tuple[str, ...]
    values: tuple[str, ...]
    wider: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """What kinds of source say each in their own way. `at_once`: one statement may do several things to columns."""

    kinds: Mapping[str, Kind]
    insert: str
    retype: str
    places: tuple[str, ...]
    columns: tuple[str, ...]
    at_once: bool


OF_MYSQL: Final = Words(
    kinds={
        "INT": Kind(("7", "-1", "NULL"), ("1", "-5", "NULL"), "BIGINT"),
        "BIGINT": Kind(("9223372036854775807", "0"), ("3", "4")),
        "TINYINT UNSIGNED": Kind(("255",), ("0", "200"), "BIGINT"),
        "VARCHAR(5)": Kind(("'a'", "''", "'é'"), ("'x'", "'yy '", "NULL"), "VARCHAR(20)"),
        "VARCHAR(20)": Kind(("'C:x'", "'a\"b'"), ("'q'", "''"), "VARCHAR(200)"),
        "VARCHAR(200)": Kind(("'日'",), ("'🐬'",)),
        "DECIMAL(6,2)": Kind(("1.5", "-0.25"), ("1.10", "NULL"), "DECIMAL(10,4)"),
        "DECIMAL(10,4)": Kind(("0.0001",), ("-3.5",)),
        "DATE": Kind(("'2020-01-02'",), ("'2021-02-03'", "NULL")),
        "DATETIME": Kind(("'2020-01-02 03:04:05'", "CURRENT_TIMESTAMP"), ("'2021-02-03 04:05:06'",), "DATETIME(6)"),
        "DATETIME(6)": Kind(("'2020-01-02 03:04:05.25'",), ("'1999-12-31 23:59:59.999999'",)),
        "TIMESTAMP NULL": Kind(("CURRENT_TIMESTAMP",), ("'2021-02-03 04:05:06'", "NULL")),
        "TIME": Kind(("'01:02:03'",), ("'-10:00:00'",)),
        "ENUM('a','b')": Kind(("'b'",), ("'a'", "NULL"), "ENUM('a','b','c')"),
        "ENUM('a','b','c')": Kind(("'c'",), ("'b'",)),
        "SET('a','b')": Kind(("'a,b'",), ("'a'", "''")),
        "BIT(5)": Kind(("b'101'",), ("b'1'",)),
        "DOUBLE": Kind(("0.1",), ("2.25e10",)),
        "FLOAT": Kind(("0.5",), ("0.1",), "DOUBLE"),
        "YEAR": Kind(("2020",), ("1999",)),
    },
    insert="INSERT IGNORE INTO {table} {rows}",
    retype="MODIFY {column} {type}",
    places=("", " FIRST", " AFTER id"),
    columns=("c1", "c2", "c3", "C1", "h1", "h2", "H1"),
    at_once=True,
)
OF_POSTGRES: Final = Words(
    kinds={
        "int": Kind(("7", "-1", "NULL"), ("1", "-5", "NULL"), "bigint"),
        "bigint": Kind(("9223372036854775807", "0"), ("3", "4")),
        "smallint": Kind(("5",), ("0", "200"), "bigint"),
        "varchar(5)": Kind(("'a'", "''", "'é'"), ("'x'", "'yy '", "NULL"), "varchar(20)"),
        "varchar(20)": Kind(("'C:\\x'",), ("'q'",), "text"),
        "text": Kind(("'a\"b''c'",), ("'🐬'",)),
        "char(4)": Kind(("'a'",), ("'w '",)),
        "numeric(6,2)": Kind(("1.5", "-0.25"), ("1.10", "NULL"), "numeric(10,2)"),
        "numeric(10,2)": Kind(("99999999.99",), ("-3.5",)),
        "date": Kind(("'2020-01-02'",), ("'2021-02-03'", "NULL")),
        "timestamp": Kind(("'2020-01-02 03:04:05.678'",), ("'2021-02-03 04:05:06'",)),
        "timestamptz": Kind(("'2020-07-02 03:04:05.5+02'",), ("'2021-02-03 04:05:06Z'", "NULL")),
        "time": Kind(("'01:02:03'",), ("'10:00:00.5'",)),
        "uuid": Kind(("'123e4567-e89b-12d3-a456-426655440000'",), ("NULL",)),
        "jsonb": Kind(('\'{"b": 1, "a": [1, 2]}\'',), ("'3'",)),
        "bytea": Kind(("'\\x00ff'",), ("'\\x5c'", "NULL")),
        "boolean": Kind(("true",), ("false", "NULL")),
        "double precision": Kind(("0.1",), ("2.25e10",)),
        "int[]": Kind(("'{1,2,NULL}'",), ("'{}'",)),
        "inet": Kind(("'1.2.3.4/8'",), ("NULL",)),
    },
    insert="INSERT INTO {table} {rows} ON CONFLICT DO NOTHING",
    retype="ALTER COLUMN {column} TYPE {type}",
    places=("",),
    columns=("c1", "c2", "c3", "h1", "h2"),
    at_once=False,
)
_IDS: Final = 12


@dataclass(slots=True)
class Migrations:
    """What became of some tables, whose names begin with `prefix`: columns but the key `id`, with their types."""

    rng: random.Random
    words: Words
    prefix: str
    _tables: dict[str, dict[str, str]] = field(default_factory=dict)
    _shown: int = 0

    @property
    def tables(self) -> list[str]:
        """The tables that there are."""
        return sorted(self._tables)

    def go_on(self) -> Sequence[str]:
        """Return the statements of one step, each in a transaction of its own."""
        acts: list[tuple[Callable[[str], list[str]], int]] = [
            (self._insert, 8),
            (self._update, 3),
            (self._delete, 1),
            (self._add, 8),
            (self._drop, 2),
            (self._add_again, 2),
            (self._rename, 2),
            (self._rename_and_add, 2),
            (self._take_name, 2),
            (self._rename_table, 2),
            (self._swap_tables, 2),
            (self._begin_anew, 1),
            (self._truncate, 1),
            (self._retype, 2),
            (self._set_default, 1),
        ]
        if not self._tables or self.rng.random() < 0.1:
            return self._create()
        ((act, _),) = self.rng.choices(acts, [weight for _, weight in acts])
        return act(self.rng.choice(self.tables))

    def show(self) -> Sequence[str]:
        """Return what writes a row into each table: PostgreSQL's log tells what became of it ahead of its next row."""
        self._shown += 1
        rows = f"(id) VALUES ({_IDS + self._shown})"
        return [self.words.insert.format(table=table, rows=rows) for table in self.tables]

    def _create(self) -> list[str]:
        name = self._free_table()
        if not name:
            return []
        self._tables[name] = columns = {}
        declared = ["id INT PRIMARY KEY"]
        for column in self.rng.sample(("c1", "c2", "c3", "h1"), self.rng.randint(1, 4)):
            columns[column], declaration = self._declared()
            declared.append(f"{column} {declaration}")
        return [f"CREATE TABLE {name} ({', '.join(declared)})", *self._insert(name)]

    def _insert(self, table: str) -> list[str]:
        columns = self._tables[table]
        statements = []
        for _ in range(self.rng.randint(1, 3)):
            some = [column for column in columns if self.rng.random() < 0.8]
            values = [str(self.rng.randrange(_IDS)), *(self._value(columns[column]) for column in some)]
            rows = f"({', '.join(['id', *some])}) VALUES ({', '.join(values)})"
            statements.append(self.words.insert.format(table=table, rows=rows))
        return statements

    def _update(self, table: str) -> list[str]:
        column = self._column(table)
        value = self._value(self._tables[table][column]) if column else ""
        return [f"UPDATE {table} SET {column} = {value} WHERE id % 2 = {self.rng.randrange(2)}"] if column else []

    def _delete(self, table: str) -> list[str]:
        return [f"DELETE FROM {table} WHERE id = {self.rng.randrange(_IDS)}"]

    def _add(self, table: str, column: str = "") -> list[str]:
        column = column or self._free_column(table)
        if not column:
            return []
        self._tables[table][column], declaration = self._declared()
        return [f"ALTER TABLE {table} ADD COLUMN {column} {declaration}{self.rng.choice(self.words.places)}"]

    def _drop(self, table: str) -> list[str]:
        column = self._column(table)
        self._tables[table].pop(column, None)
        return [f"ALTER TABLE {table} DROP COLUMN {column}"] if column else []

    def _add_again(self, table: str) -> list[str]:
        column = self._column(table)
        dropped = f"ALTER TABLE {table} DROP COLUMN {column}"
        return [dropped, *self._delete(table), *self._add(table, column)] if column else []

    def _rename(self, table: str) -> list[str]:
        """Give a column another name, or write its name in other letters."""
        old = self._column(table)
        new = self._free_column(table, old) if old else ""
        return self._altered(table, self._renamed(table, old, new)) if new else []

    def _rename_and_add(self, table: str) -> list[str]:
        """Give a column another name, and another column that name."""
        old = self._column(table)
        new = self._free_column(table, old) if old else ""
        if not new or new.casefold() == old.casefold():
            return []
        renamed = self._renamed(table, old, new)
        self._tables[table][old], declaration = self._declared()
        return self._altered(table, renamed, f"ADD COLUMN {old} {declaration}")

    def _take_name(self, table: str) -> list[str]:
        """Drop a column, and give another one its name, perhaps in other letters."""
        gone = self._column(table)
        others = [name for name in self._tables[table] if name != gone and name[0].lower() == gone[:1].lower()]
        if not others:
            return []
        del self._tables[table][gone]
        spelled = [name for name in self.words.columns if name.casefold() == gone.casefold()]
        renamed = self._renamed(table, self.rng.choice(others), self.rng.choice(spelled))
        return self._altered(table, f"DROP COLUMN {gone}", renamed)

    def _rename_table(self, table: str) -> list[str]:
        new = self._free_table()
        if not new:
            return []
        self._tables[new] = self._tables.pop(table)
        return [f"ALTER TABLE {table} RENAME TO {new}", *self._insert(new)]

    def _swap_tables(self, table: str) -> list[str]:
        other, aside = self.rng.choice(self.tables), f"{self.prefix}_aside"
        if other == table:
            return []
        self._tables[table], self._tables[other] = self._tables[other], self._tables[table]
        pairs = ((table, aside), (other, table), (aside, other))
        if self.words.at_once and self.rng.random() < 0.5:
            return [f"RENAME TABLE {', '.join(f'{old} TO {new}' for old, new in pairs)}"]
        return [f"ALTER TABLE {old} RENAME TO {new}" for old, new in pairs]

    def _begin_anew(self, table: str) -> list[str]:
        del self._tables[table]
        return [f"DROP TABLE {table}", *self._create()]

    def _truncate(self, table: str) -> list[str]:
        return [f"TRUNCATE TABLE {table}"]

    def _retype(self, table: str) -> list[str]:
        column = self._column(table)
        wider = self.words.kinds[self._tables[table][column]].wider if column else ""
        if not wider:
            return []
        self._tables[table][column] = wider
        return [f"ALTER TABLE {table} {self.words.retype.format(column=column, type=wider)}"]

    def _set_default(self, table: str) -> list[str]:
        column = self._column(table)
        if not column:
            return []
        literals = [each for each in self._kind(table, column).defaults if each != "CURRENT_TIMESTAMP"] or ["NULL"]
        return [f"ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {self.rng.choice(literals)}"]

    def _renamed(self, table: str, old: str, new: str) -> str:
        self._tables[table][new] = self._tables[table].pop(old)
        return f"RENAME COLUMN {old} TO {new}"

    def _altered(self, table: str, *changes: str) -> list[str]:
        """Alter a table in one statement, or in several where the source knows no other way."""
        if self.words.at_once:
            return [f"ALTER TABLE {table} {', '.join(changes)}"]
        return [f"ALTER TABLE {table} {change}" for change in changes]

    def _kind(self, table: str, column: str) -> Kind:
        return self.words.kinds[self._tables[table][column]]

    def _declared(self) -> tuple[str, str]:
        """Return a type, and how a column of it is declared."""
        type_ = self.rng.choice(sorted(self.words.kinds))
        kind = self.words.kinds[type_]
        default = self.rng.choice(kind.defaults)
        is_required = "NULL" not in {default, *kind.values} and self.rng.random() < 0.5
        return type_, f"{type_}{' NOT NULL' if is_required else ''} DEFAULT {default}"

    def _value(self, type_: str) -> str:
        return self.rng.choice(self.words.kinds[type_].values)

    def _column(self, table: str) -> str:
        """Return one of the columns, "" if there is none."""
        return self.rng.choice(sorted(self._tables[table]) or [""])

    def _free_column(self, table: str, like: str = "") -> str:
        """Return a name for a column, "" if there is none; one `like` another may be its own in other letters."""
        taken = {name.casefold() for name in self._tables[table]} - {like.casefold()}
        free = [name for name in self.words.columns if name != like and name.casefold() not in taken]
        return self.rng.choice([name for name in free if name.casefold().startswith(like[:1].casefold())] or [""])

    def _free_table(self) -> str:
        return self.rng.choice([name for name in self._names() if name not in self._tables] or [""])

    def _names(self) -> Sequence[str]:
        return [f"{self.prefix}_{letter}" for letter in "abc"]
