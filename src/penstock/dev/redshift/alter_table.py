"""ALTER TABLE: one column at a time, VARCHAR's length only, and keys that stand in the way.

Source: Amazon Redshift Database Developer Guide, "ALTER TABLE" and "ALTER TABLE APPEND".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift.column_types import translate_type
from penstock.dev.redshift.create_table import Attributes, read_column, read_encoding
from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.names import checked_name
from penstock.dev.redshift.plan import Plan, Run
from penstock.dev.redshift.reading import Reading
from penstock.dev.redshift.tokens import literal

if TYPE_CHECKING:
    from penstock.dev.redshift.plan import TargetPlace
    from penstock.dev.redshift.tokens import Statement

_TAG = "ALTER TABLE"
_FIXED_ENCODINGS = frozenset({"bytedict", "runlength", "text255", "text32k"})
_NONE = frozenset[str]()


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN, unless the table is distributed or sorted by it."""

    table: str
    column: str
    cascade: bool

    async def run(self, place: TargetPlace) -> str:
        """Drop it; RedshiftError where it is a key."""
        notes = await read_notes(place, self.table)
        name = self.column.strip('"')
        if notes.get("distkey") == name:
            message = f'cannot drop distkey column "{name}"'
            raise refuse(message)
        if name in _names(notes.get("sortkeys")):
            message = f'cannot drop sortkey column "{name}"'
            raise refuse(message)
        await place.rows(f"ALTER TABLE {self.table} DROP COLUMN {self.column}" + (" CASCADE" if self.cascade else ""))
        return _TAG


@dataclass(frozen=True, slots=True)
class ResizeColumn:
    """ALTER COLUMN ... TYPE VARCHAR(n)."""

    table: str
    column: str
    new_type: str

    async def run(self, place: TargetPlace) -> str:
        """Resize it; RedshiftError where Redshift cannot."""
        name = self.column.strip('"')
        found = await place.rows(
            f"SELECT format_type(atttypid, NULL), atttypmod - 4, atthasdef OR attidentity <> ''"  # noqa: S608 - a name that PostgreSQL knows
            f" FROM pg_attribute WHERE attrelid = {literal(self.table)}::regclass AND attname = {literal(name)}"
        )
        if not found:
            message = f'column "{name}" of relation {self.table} does not exist'
            raise refuse(message, sqlstate="42703")
        ((type_name, length, has_default),) = found
        notes = await read_notes(place, self.table)
        self._check(name, str(type_name), notes)
        if has_default == "t":
            message = f'cannot alter column "{name}": it has a default value'
            raise refuse(message)
        new_length = int(self.new_type[len("varchar(") : -1])
        if new_length == int(length or 0):
            message = f'cannot alter column "{name}" of relation {self.table}, target column size should be different'
            raise refuse(message)
        if new_length < int(length or 0):
            question = f"SELECT coalesce(max(octet_length({self.column})), 0) FROM {self.table}"  # noqa: S608 - as above
            ((longest,),) = await place.rows(question)
            if int(longest or 0) > new_length:
                message = f'cannot alter column "{name}": it holds values of up to {longest} bytes'
                raise refuse(message, sqlstate="22001")
        await place.rows(f"ALTER TABLE {self.table} ALTER COLUMN {self.column} TYPE {self.new_type}")
        return _TAG

    def _check(self, name: str, type_name: str, notes: dict[str, object]) -> None:
        if type_name != "character varying" or not self.new_type.startswith("varchar("):
            message = f'cannot alter type of column "{name}" from {type_name} to {self.new_type}'
            raise refuse(message, hint="only the size of a VARCHAR column can be altered")
        keys = {*_names(notes.get("primary")), *(each for key in _lists(notes.get("unique")) for each in key)}
        if name in keys:
            message = f'cannot alter column "{name}": it is part of a PRIMARY KEY or UNIQUE constraint'
            raise refuse(message)
        encodings = notes.get("encodings")
        encoding = encodings.get(name, "") if isinstance(encodings, dict) else ""
        if encoding in _FIXED_ENCODINGS:
            message = f'cannot alter column "{name}": its encoding is {encoding}'
            raise refuse(message)


@dataclass(frozen=True, slots=True)
class Note:
    """What changes only what is noted of a table."""

    table: str
    notes: dict[str, object]

    async def run(self, place: TargetPlace) -> str:
        """Note it."""
        content = literal(json.dumps(self.notes))
        await place.rows(f"SELECT standin_note({literal(self.table)}::regclass, {content}::jsonb)")
        return _TAG


async def read_notes(place: TargetPlace, table: str) -> dict[str, object]:
    """What is noted of a table; RedshiftError if there is none."""
    found = await place.rows(f"SELECT standin_notes({literal(table)}::regclass)")
    notes: dict[str, object] = json.loads(found[0][0] or "{}")
    return notes


def plan_alter_table(statement: Statement) -> Plan:
    """The plan for an ALTER TABLE statement; RedshiftError for what Redshift refuses."""
    reading = Reading(statement)
    reading.expect("ALTER")
    reading.expect("TABLE")
    table = reading.qualified_name()
    word = reading.next().word
    match word:
        case "ADD":
            return _add(statement, reading, table)
        case "DROP":
            return _drop(statement, reading, table)
        case "ALTER":
            return _alter(statement, reading, table)
        case "APPEND":
            return _append(statement, reading, table)
        case "RENAME":
            return _rename(statement, reading, table)
        case "OWNER":
            reading.expect("TO")
            return Plan(statement.text, f"ALTER TABLE {table} OWNER TO {_last(reading)}")
        case _:
            raise reading.error(word)


def _add(statement: Statement, reading: Reading, table: str) -> Plan:
    if reading.peek() in {"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN"}:
        return _add_constraint(statement, reading, table)
    reading.take("COLUMN")
    rest = reading.until(frozenset({","}))
    if not reading.at_end():
        # "You can add only one column in each ALTER TABLE statement."
        message = ","
        raise reading.error(message)
    notes = Attributes()
    column = read_column(Reading(statement, rest), table, notes)
    if " NOT NULL" in column and "DEFAULT" not in column:
        message = "ALTER TABLE ADD COLUMN defined as NOT NULL must have a non-null default expression"
        raise refuse(message)
    if notes.notes or notes.unique or "IDENTITY" in column:
        message = "ALTER TABLE ADD COLUMN cannot add a key or an identity column"
        raise refuse(message)
    sql = f"ALTER TABLE {table} ADD COLUMN {column}"
    if not notes.encodings:
        return Plan(statement.text, sql)
    note = f"SELECT standin_note({literal(table)}::regclass, {literal(json.dumps({'encodings': notes.encodings}))})"
    return Plan(statement.text, action=Run(_TAG, (sql, note)))


def _add_constraint(statement: Statement, reading: Reading, table: str) -> Plan:
    if reading.take("CONSTRAINT"):
        checked_name(reading.next())
    word = reading.next().word
    if word == "FOREIGN":
        return Plan(statement.text, action=Note(table, {}))
    if word == "PRIMARY":
        reading.expect("KEY")
    columns = [column.strip('"') for column in reading.column_list()]
    noted: dict[str, object] = {"primary": columns} if word == "PRIMARY" else {"unique": [columns]}
    return Plan(statement.text, action=Note(table, noted))


def _drop(statement: Statement, reading: Reading, table: str) -> Plan:
    if reading.take("CONSTRAINT"):
        return Plan(statement.text, action=Note(table, {"primary": [], "unique": []}))
    reading.take("COLUMN")
    column = checked_name(reading.next())
    cascade = reading.take("CASCADE")
    reading.take("RESTRICT")
    if not reading.at_end():
        raise reading.error()
    return Plan(statement.text, action=DropColumn(table, column, cascade))


def _alter(statement: Statement, reading: Reading, table: str) -> Plan:
    match reading.peek():
        case "DISTKEY" | "DISTSTYLE" | "COMPOUND" | "INTERLEAVED" | "SORTKEY" | "ENCODE":
            return Plan(statement.text, action=Note(table, _keys(reading)), never_in_block="ALTER TABLE ALTER")
        case "COLUMN":
            reading.next()
        case _:
            pass
    column = checked_name(reading.next())
    word = reading.next().word
    if word == "TYPE":
        rest = reading.until(frozenset({","}))
        if not reading.at_end():
            message = ","
            raise reading.error(message)
        action = ResizeColumn(table, column, translate_type(rest, column))
        return Plan(statement.text, action=action, never_in_block="ALTER TABLE ALTER COLUMN")
    if word != "ENCODE":
        raise reading.error(word)
    encodings = {column.strip('"'): read_encoding(reading)}
    while reading.take(","):
        reading.expect("ALTER")
        reading.take("COLUMN")
        column = checked_name(reading.next())
        reading.expect("ENCODE")
        encodings[column.strip('"')] = read_encoding(reading)
    return Plan(statement.text, action=Note(table, {"encodings": encodings}), never_in_block="ALTER TABLE ALTER COLUMN")


def _keys(reading: Reading) -> dict[str, object]:
    """New distribution or sorting."""
    word = reading.next().word
    if word == "ENCODE":
        reading.expect("AUTO")
        return {}
    if word == "DISTKEY":
        return {"diststyle": "key", "distkey": checked_name(reading.next()).strip('"')}
    if word == "DISTSTYLE":
        style = reading.next().word.lower()
        key = reading.take("DISTKEY")
        return {"diststyle": style, "distkey": checked_name(reading.next()).strip('"') if key else None}
    if word in {"COMPOUND", "INTERLEAVED"}:
        reading.expect("SORTKEY")
    elif reading.take("AUTO") or reading.take("NONE"):
        return {"sortkeys": []}
    columns = [column.strip('"') for column in reading.column_list()]
    return {"sortkeys": columns, "sortstyle": "interleaved" if word == "INTERLEAVED" else "compound"}


def _append(statement: Statement, reading: Reading, table: str) -> Plan:
    """All rows of another table with the same columns move here; it commits."""
    reading.expect("FROM")
    source = reading.qualified_name()
    if not reading.at_end():
        # IGNOREEXTRA and FILLTARGET.
        raise reading.error()
    # The count of columns, their types and their order must agree: PostgreSQL finds two of these out.
    action = Run(
        _TAG,
        (
            f"SELECT standin_same_columns({literal(table)}::regclass, {literal(source)}::regclass)",
            f"INSERT INTO {table} SELECT * FROM {source}",  # noqa: S608 - the statement's own names
            f"TRUNCATE {source}",
        ),
    )
    return Plan(statement.text, action=action, never_in_block="ALTER TABLE APPEND")


def _rename(statement: Statement, reading: Reading, table: str) -> Plan:
    if reading.take("TO"):
        return Plan(statement.text, f"ALTER TABLE {table} RENAME TO {_last(reading)}")
    reading.expect("COLUMN")
    column = checked_name(reading.next())
    reading.expect("TO")
    new = _last(reading)
    note = f"SELECT standin_renamed({literal(table)}::regclass, {literal(column[1:-1])}, {literal(new[1:-1])})"
    return Plan(statement.text, action=Run(_TAG, (f"ALTER TABLE {table} RENAME COLUMN {column} TO {new}", note)))


def _last(reading: Reading) -> str:
    """The name with which the statement ends."""
    name = checked_name(reading.next())
    if not reading.at_end():
        raise reading.error()
    return name


def _names(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _lists(value: object) -> list[list[str]]:
    return [_names(each) for each in value] if isinstance(value, list) else []
