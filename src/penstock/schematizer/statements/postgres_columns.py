"""One column of PostgreSQL's CREATE TABLE: its type, then constraints in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.tables import BytesType, Column, IntegerType, TimestampType

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType
    from penstock.schematizer.statements.postgres_types import KnownTypes, ReadType
    from penstock.schematizer.statements.sql_words import Word, WordReader

_BEGINS_A_CONSTRAINT = (
    *("NOT", "NULL", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "GENERATED", "CONSTRAINT", "DEFAULT"),
    *("COLLATE", "DEFERRABLE", "INITIALLY", "STORAGE", "COMPRESSION"),
)
_BOOLEANS = {"TRUE": "1", "FALSE": "0"}
_BOOLEAN_TEXTS = {"t": "1", "true": "1", "yes": "1", "on": "1", "1": "1"}
_BOOLEAN_TEXTS |= {"f": "0", "false": "0", "no": "0", "off": "0", "0": "0"}


@dataclass(slots=True)
class _Said:
    """What a column's constraints say."""

    not_null: bool = False
    is_key: bool = False
    default: str | None = None
    is_expression: bool = False
    generated: str = ""


def read_column(name: str, reader: WordReader, types: KnownTypes) -> tuple[Column, bool]:
    """Take what follows a column's name; return the column, and whether it is the primary key."""
    found = types.read(reader)
    said = _Said()
    if found.declared is not None:
        domain = found.declared
        said = _Said(domain.not_null, False, domain.default, domain.default_is_expression)  # noqa: FBT003 - no key yet
    if found.is_serial:
        said.not_null = said.is_expression = True
    while not reader.is_at_end:
        _constraint(reader, found, said)
    column = Column(
        name,
        found.type,
        nullable=not (said.not_null or said.is_key),
        declaration=found.declaration + said.generated,
        default=said.default,
        default_is_expression=said.is_expression,
    )
    return column, said.is_key


def _constraint(reader: WordReader, found: ReadType, said: _Said) -> None:
    if reader.take_if("CONSTRAINT"):
        reader.name()
    if reader.take_if("NOT", "NULL"):
        said.not_null = True
    elif reader.take_if("PRIMARY", "KEY"):
        said.is_key = True
    elif reader.take_if("DEFAULT"):
        said.default, said.is_expression = _default(reader, found)
    elif reader.take_if("GENERATED"):
        _generated(reader, said)
    elif reader.peek().is_word(*_BEGINS_A_CONSTRAINT):
        # What keeps values out does not change those that are in: UNIQUE, CHECK, REFERENCES, COLLATE and the rest.
        reader.take()
        _until_constraint(reader)
    else:
        reader.refuse("there should be a constraint, a comma or a closing parenthesis")


def _generated(reader: WordReader, said: _Said) -> None:
    if not reader.take_if("ALWAYS"):
        reader.expect("BY", "DEFAULT")
    reader.expect("AS")
    said.default, said.is_expression = None, True
    if reader.take_if("IDENTITY"):
        said.not_null = True
        if reader.peek().is_word("("):
            reader.in_parentheses()
        return
    expression = reader.source_of(reader.in_parentheses())
    kind = "STORED" if reader.take_if("STORED") else "VIRTUAL"
    reader.take_if("VIRTUAL")
    said.generated = f" GENERATED ALWAYS AS ({expression}) {kind}"


def _until_constraint(reader: WordReader) -> list[Word]:
    taken: list[Word] = []
    while not reader.is_at_end and not reader.peek().is_word(*_BEGINS_A_CONSTRAINT):
        if reader.peek().is_word("("):
            taken += [reader.peek(), *reader.in_parentheses()]
        else:
            taken.append(reader.take())
    return taken


def _default(reader: WordReader, found: ReadType) -> tuple[str | None, bool]:
    """Take a default; return it if it is a constant that every row gets alike, and whether it is none."""
    words = [reader.take(), *_until_constraint(reader)]
    sign, rest = ("-", words[1:]) if words[0].is_word("-") else ("", words)
    if not rest or (len(rest) > 1 and not rest[1].is_word("::")):
        return None, True
    first = rest[0]
    if first.is_word("NULL"):
        return None, False
    constant = _constant(first, sign, found.type)
    return constant, constant is None


def _constant(word: Word, sign: str, type_: ColumnType) -> str | None:
    # Nobody says in which zone a TIMESTAMPTZ is meant, and bytes may be written in two ways.
    if isinstance(type_, TimestampType | BytesType) or (sign and word.kind != "number"):
        return None
    if word.is_word(*_BOOLEANS):
        return _BOOLEANS[word.text.upper()]
    if isinstance(type_, IntegerType) and type_.bits == 8 and word.kind == "text":  # noqa: PLR2004 - a boolean's
        return _BOOLEAN_TEXTS.get(word.text.lower())
    return f"{sign}{word.text}" if word.kind in {"number", "text"} else None
