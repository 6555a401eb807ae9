"""CREATE TABLE: what PostgreSQL has no word for is taken out and noted; keys are noted, never enforced.

Source: Amazon Redshift Database Developer Guide, "CREATE TABLE", "CREATE TABLE AS", "Table constraints".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.dev.redshift.column_types import translate_type
from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.names import checked_name
from penstock.dev.redshift.plan import Plan
from penstock.dev.redshift.reading import Reading

if TYPE_CHECKING:
    from penstock.dev.redshift.tokens import Statement, Token

_ENDS_TYPE = frozenset(
    "DEFAULT IDENTITY GENERATED ENCODE DISTKEY SORTKEY COLLATE NOT NULL UNIQUE PRIMARY REFERENCES CHECK".split()  # noqa: SIM905 - a list of words reads better as one
)
_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK"})
_ENCODINGS = frozenset(
    """
    RAW AZ64 BYTEDICT DELTA DELTA32K LZO MOSTLY8 MOSTLY16 MOSTLY32 RUNLENGTH TEXT255 TEXT32K ZSTD AUTO
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
_STYLES = frozenset({"AUTO", "EVEN", "KEY", "ALL"})
_SORT_COLUMNS_MAX = {"COMPOUND": 400, "INTERLEAVED": 8}


class Attributes:
    """What is noted of a table: distribution, sorting, encodings and keys. Names are as PostgreSQL has them."""

    def __init__(self) -> None:
        """Nothing noted yet."""
        self.notes: dict[str, object] = {}
        self.encodings: dict[str, str] = {}
        self.unique: list[list[str]] = []

    def set(self, name: str, value: object) -> None:
        """Note something that a table has once; RedshiftError the second time."""
        if name in self.notes:
            message = f"multiple {name.upper()} definitions are not allowed"
            raise refuse(message, sqlstate="42601")
        self.notes[name] = value

    def render(self) -> str:
        """As a comment in front of the statement, for the event trigger to read."""
        found = {**self.notes, "encodings": self.encodings, "unique": self.unique}
        return "/*standin " + json.dumps(found).replace("*/", "") + "*/ "


def plan_create_table(statement: Statement) -> Plan:
    """The plan for a CREATE TABLE statement; RedshiftError for what Redshift refuses."""
    reading = Reading(statement)
    reading.expect("CREATE")
    reading.take("LOCAL")
    temporary = reading.take("TEMPORARY") or reading.take("TEMP")
    reading.expect("TABLE")
    head = "CREATE TEMP TABLE" if temporary else "CREATE TABLE"
    if reading.take("IF"):
        reading.expect("NOT")
        reading.expect("EXISTS")
        head += " IF NOT EXISTS"
    name = reading.qualified_name()
    notes = Attributes()
    columns = _columns(reading, name, notes) if reading.peek() == "(" else ""
    _table_attributes(reading, notes)
    tail = ""
    if reading.take("AS"):
        tail = " AS " + reading.rest()
    elif not reading.at_end() or not columns:
        raise reading.error()
    return Plan(statement.text, f"{notes.render()}{head} {name}{columns}{tail}")


def read_column(reading: Reading, table: str, notes: Attributes) -> str:
    """One column's definition, from its name to the end of `reading`, in PostgreSQL's words."""
    name = checked_name(reading.next())
    words = reading.until(_ENDS_TYPE)
    if not words:
        # A column of CREATE TABLE ... (a, b) AS SELECT.
        return name
    parts = [name, translate_type(words, f"{table}.{name}".replace('"', ""))]
    while not reading.at_end():
        parts += _column_attribute(reading, name.strip('"'), notes)
    return " ".join(dict.fromkeys(parts))


def read_encoding(reading: Reading) -> str:
    """A compression encoding's name; RedshiftError for one that there is not."""
    found = reading.next().word
    if found not in _ENCODINGS:
        message = f'invalid encoding type "{found.lower()}"'
        raise refuse(message, sqlstate="42601")
    return found.lower()


def _columns(reading: Reading, table: str, notes: Attributes) -> str:
    parts: list[str] = []
    required: set[str] = set()
    for item in reading.items():
        if item.peek() == "LIKE":
            parts.append(_like(item, notes))
        elif item.peek() in _CONSTRAINTS:
            required |= _constraint(item, notes)
        else:
            parts.append(read_column(item, table, notes))
    # A primary key's columns take no NULL; that is all of a key that holds.
    kept = [f"{part} NOT NULL" if part.split(" ")[0] in required and "NOT NULL" not in part else part for part in parts]
    return " (" + ", ".join(kept) + ")"


def _like(item: Reading, notes: Attributes) -> str:
    item.expect("LIKE")
    parent = item.qualified_name()
    notes.set("like", parent)
    with_defaults = item.take("INCLUDING")
    if with_defaults or item.take("EXCLUDING"):
        item.expect("DEFAULTS")
    if not item.at_end():
        raise item.error()
    return f"LIKE {parent}" + (" INCLUDING DEFAULTS" if with_defaults else "")


def _column_attribute(reading: Reading, column: str, notes: Attributes) -> list[str]:
    """One attribute of a column: what PostgreSQL is told of it."""
    word = reading.next().word
    match word:
        case "DEFAULT":
            return ["DEFAULT " + reading.expression(_ENDS_TYPE)]
        case "IDENTITY":
            return [f"GENERATED ALWAYS AS IDENTITY {_seed(reading)}"]
        case "GENERATED":
            for expected in ("BY", "DEFAULT", "AS", "IDENTITY"):
                reading.expect(expected)
            return [f"GENERATED BY DEFAULT AS IDENTITY {_seed(reading)}"]
        case "NOT":
            reading.expect("NULL")
            return ["NOT NULL"]
        case "PRIMARY":
            reading.expect("KEY")
            notes.set("primary", [column])
            return ["NOT NULL"]
        case _:
            _note_attribute(word, reading, column, notes)
            return []


def _note_attribute(word: str, reading: Reading, column: str, notes: Attributes) -> None:
    """One attribute of a column of which PostgreSQL is told nothing."""
    match word:
        case "ENCODE":
            notes.encodings[column] = read_encoding(reading)
        case "DISTKEY":
            notes.set("distkey", column)
        case "SORTKEY":
            notes.set("sortkeys", [column])
        case "UNIQUE":
            notes.unique.append([column])
        case "REFERENCES":
            _reference(reading)
        case "COLLATE":
            reading.next()
        case "NULL":
            pass
        case _:
            raise reading.error(word)


def _seed(reading: Reading) -> str:
    """The start and step of an identity column."""
    start, step = [" ".join(token.text for token in item.tokens).replace(" ", "") for item in reading.items()]
    return f"(START WITH {start} INCREMENT BY {step}" + (" MINVALUE -9223372036854775807)" if "-" in step else ")")


def _constraint(item: Reading, notes: Attributes) -> set[str]:
    """Note a table's constraint; the columns that must not be NULL for it."""
    if item.take("CONSTRAINT"):
        checked_name(item.next())
    word = item.next().word
    match word:
        case "PRIMARY":
            item.expect("KEY")
            columns = item.column_list()
            notes.set("primary", [column.strip('"') for column in columns])
            return set(columns)
        case "UNIQUE":
            notes.unique.append([column.strip('"') for column in item.column_list()])
        case "FOREIGN":
            item.expect("KEY")
            item.column_list()
            item.expect("REFERENCES")
            _reference(item)
        case _:
            message = "CHECK constraints are not supported"
            raise refuse(message, hint="Redshift has no CHECK")
    return set()


def _reference(reading: Reading) -> None:
    reading.qualified_name()
    if reading.peek() == "(":
        reading.column_list()


def _table_attributes(reading: Reading, notes: Attributes) -> None:
    while not reading.at_end() and reading.peek() != "AS":
        token = reading.next()
        match token.word:
            case "BACKUP":
                reading.next()
            case "DISTSTYLE":
                notes.set("diststyle", _style(reading.next()))
            case "DISTKEY":
                (column,) = reading.column_list()
                notes.set("distkey", column.strip('"'))
            case "ENCODE":
                reading.expect("AUTO")
            case "COMPOUND" | "INTERLEAVED":
                reading.expect("SORTKEY")
                _sort_keys(reading, notes, token.word)
            case "SORTKEY":
                _sort_keys(reading, notes, "COMPOUND")
            case _:
                raise reading.error(token.text)
    if "distkey" in notes.notes and notes.notes.get("diststyle", "key") != "key":
        message = "DISTKEY cannot be specified with a DISTSTYLE other than KEY"
        raise refuse(message, sqlstate="42601")
    if notes.notes.get("diststyle") == "key" and "distkey" not in notes.notes:
        message = "DISTSTYLE KEY requires a DISTKEY column"
        raise refuse(message, sqlstate="42601")


def _style(token: Token) -> str:
    if token.word not in _STYLES:
        message = f'invalid DISTSTYLE "{token.text}"'
        raise refuse(message, sqlstate="42601")
    return token.word.lower()


def _sort_keys(reading: Reading, notes: Attributes, style: str) -> None:
    if reading.take("AUTO"):
        return
    columns = [column.strip('"') for column in reading.column_list()]
    if len(columns) > _SORT_COLUMNS_MAX[style]:
        message = f"{style.lower()} sort key cannot have more than {_SORT_COLUMNS_MAX[style]} columns"
        raise refuse(message, sqlstate="42601")
    notes.set("sortkeys", columns)
    notes.notes["sortstyle"] = style.lower()
