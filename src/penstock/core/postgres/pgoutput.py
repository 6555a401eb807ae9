"""pgoutput, one message at a time: the plain decoder.

Source: PostgreSQL 18 documentation, "Logical Replication Message Formats". Of protocol 1 and 2;
transactions come whole, when they are committed (`streaming` is off).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from penstock.core.postgres.messages import (
    UNCHANGED,
    Began,
    Cell,
    Cells,
    Committed,
    Deleted,
    Inserted,
    OtherMessage,
    PgoutputMessage,
    Relation,
    RelationColumn,
    Truncated,
    TypeNamed,
    Updated,
)
from penstock.core.postgres.network_reader import MalformedError, NetworkReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IDENTITIES: Final[Mapping[str, Literal["d", "n", "f", "i"]]] = {"d": "d", "n": "n", "f": "f", "i": "i"}


def decode_message(data: bytes) -> PgoutputMessage:
    """Decode one message; MalformedError for bytes that are none, or that go on behind it."""
    reader = NetworkReader(data)
    kind = reader.letter()
    read = _READERS.get(kind)
    if read is None:
        message = f"a message of kind {kind!r}, which was not asked for"
        raise MalformedError(message)
    decoded = read(reader)
    if reader.left:
        message = f"{reader.left} bytes after a message of kind {kind!r}"
        raise MalformedError(message)
    return decoded


def _began(reader: NetworkReader) -> Began:
    return Began(reader.integer(8), reader.integer(8, signed=True), reader.integer(4))


def _committed(reader: NetworkReader) -> Committed:
    reader.take(1)
    return Committed(reader.integer(8), reader.integer(8), reader.integer(8, signed=True))


def _relation(reader: NetworkReader) -> Relation:
    oid, schema, name, letter = reader.integer(4), reader.text(), reader.text(), reader.letter()
    if letter not in IDENTITIES:
        message = f"a replica identity {letter!r} of {schema}.{name}"
        raise MalformedError(message)
    columns = []
    for _ in range(reader.integer(2)):
        flags, column = reader.integer(1), reader.text()
        columns.append(RelationColumn(column, reader.integer(4), reader.integer(4, signed=True), bool(flags & 1)))
    # The system catalog's schema is sent as the empty text.
    return Relation(oid, schema or "pg_catalog", name, IDENTITIES[letter], tuple(columns))


def _type(reader: NetworkReader) -> TypeNamed:
    return TypeNamed(reader.integer(4), reader.text() or "pg_catalog", reader.text())


def _inserted(reader: NetworkReader) -> Inserted:
    oid = reader.integer(4)
    _require(reader.letter(), "N")
    return Inserted(oid, _cells(reader))


def _updated(reader: NetworkReader) -> Updated:
    oid, letter = reader.integer(4), reader.letter()
    old = None
    is_whole = letter == "O"
    if letter in "KO":
        old, letter = _cells(reader), reader.letter()
    _require(letter, "N")
    return Updated(oid, old, is_whole, _cells(reader))


def _deleted(reader: NetworkReader) -> Deleted:
    oid, letter = reader.integer(4), reader.letter()
    _require(letter, "KO")
    return Deleted(oid, _cells(reader), letter == "O")


def _truncated(reader: NetworkReader) -> Truncated:
    count = reader.integer(4)
    reader.take(1)
    if count * 4 > reader.left:
        message = f"{count} tables are announced where {reader.left} bytes are left"
        raise MalformedError(message)
    return Truncated(tuple(reader.integer(4) for _ in range(count)))


def _said(reader: NetworkReader) -> OtherMessage:
    reader.take(9)
    reader.text()
    reader.take(reader.integer(4))
    return OtherMessage()


def _origin(reader: NetworkReader) -> OtherMessage:
    reader.take(8)
    reader.text()
    return OtherMessage()


def _aborted(reader: NetworkReader) -> OtherMessage:
    """Stream Abort, which PostgreSQL 18 may send without `streaming`: nothing of that subtransaction was sent."""
    reader.take(8)
    return OtherMessage()


def _cells(reader: NetworkReader) -> Cells:
    return tuple([_cell(reader) for _ in range(reader.integer(2))])


def _cell(reader: NetworkReader) -> Cell:
    match reader.letter():
        case "n":
            return None
        case "u":
            return UNCHANGED
        case "t":
            return reader.take(reader.integer(4))
        case other:
            message = f"a value of kind {other!r}"
            raise MalformedError(message)


def _require(letter: str, wanted: str) -> None:
    if letter not in wanted:
        message = f"a row image of kind {letter!r}"
        raise MalformedError(message)


_READERS: Final[Mapping[str, Callable[[NetworkReader], PgoutputMessage]]] = {
    "B": _began,
    "C": _committed,
    "R": _relation,
    "Y": _type,
    "I": _inserted,
    "U": _updated,
    "D": _deleted,
    "T": _truncated,
    "M": _said,
    "O": _origin,
    "A": _aborted,
}
