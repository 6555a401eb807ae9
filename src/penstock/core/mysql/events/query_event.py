"""QUERY events: the text of a statement, its default schema and the character set it was typed in.

Source: MariaDB Knowledge Base, "Query_event" and "Query_compressed_event"; MySQL internals,
`Query_event` and `Execute_load_query_event` (LOAD DATA logged as a statement).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from penstock.core.mysql.events.compressed import inflate
from penstock.core.mysql.events.event_codes import EventCode as Code
from penstock.core.mysql.statements.sql_session import SqlSession
from penstock.core.mysql.types.bytes_reader import BytesReader
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER, is_utf8, text_decoder
from penstock.core.mysql.types.collations import BINARY, CHARSETS

if TYPE_CHECKING:
    from collections.abc import Callable

STATEMENTS: Final = (Code.QUERY, Code.EXECUTE_LOAD_QUERY, Code.MARIADB_QUERY_COMPRESSED)
"""The events that hold the text of a statement."""

_LOAD_BYTES: Final = 13
_STATUS_FIXED_WIDTHS: Final = {3: 4, 7: 2, 8: 2, 9: 8, 10: 4}
_STATUS_FLAGS: Final = 0
_STATUS_SQL_MODE: Final = 1
_STATUS_CATALOG_WITH_NUL: Final = 2
_STATUS_CHARSET: Final = 4
_STATUS_TEXTS: Final = {6: 1, 11: 2}
_STATUS_TIME_ZONE: Final = 5
_STATUS_SCHEMAS: Final = 12
# MySQL's, and MariaDB's.
_STATUS_MICROSECONDS: Final = (13, 128)
_STATUS_TIMESTAMPS: Final = 16
_SCHEMAS_UNTOLD: Final = 254
# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP; MySQL has a variable of its own, and no such flag.
_FLAG_TIMESTAMPS: Final = 1 << 24
_CLIENT_UNTOLD: Final = 0


class Control(Enum):
    """What a statement does to the transaction it stands in."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    SAVEPOINT = auto()
    ROLLBACK_TO = auto()
    XA_START = auto()
    XA_END = auto()
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Query:
    """One statement. Bytes that are no text in its character set are kept as lone surrogates."""

    sql: str
    default_schema: str
    session: SqlSession


def parse_query(body: bytes | memoryview, code: int = Code.QUERY) -> Query:
    """Read one of the STATEMENTS after its header (checksum left out).

    MalformedError if it is none, KeyError with the collation of a client whose character set we do not know.
    """
    reader = BytesReader(body, 8)
    schema_bytes = reader.integer(1)
    reader.take(2)
    status_bytes = reader.integer(2)
    if code == Code.EXECUTE_LOAD_QUERY:
        reader.take(_LOAD_BYTES)
    session = _session(reader.take(status_bytes))
    schema = reader.text(schema_bytes)
    reader.take(1)
    text = inflate(body[reader.at :]) if code == Code.MARIADB_QUERY_COMPRESSED else reader.take(reader.left)
    return Query(_decode(text, session.client), schema, session)


def control_of(sql: str) -> Control:
    """Tell transaction control, which the server writes in one spelling, from everything else."""
    head = sql[:24].upper()
    if head in _EXACT:
        return _EXACT[head]
    for prefix, control in _PREFIXES:
        if head.startswith(prefix):
            return control
    return Control.NONE


_EXACT: Final = {"BEGIN": Control.BEGIN, "COMMIT": Control.COMMIT, "ROLLBACK": Control.ROLLBACK}
_PREFIXES: Final = (
    ("SAVEPOINT ", Control.SAVEPOINT),
    ("ROLLBACK TO ", Control.ROLLBACK_TO),
    ("XA START ", Control.XA_START),
    ("XA END ", Control.XA_END),
    ("XA COMMIT ", Control.XA_COMMIT),
    ("XA ROLLBACK ", Control.XA_ROLLBACK),
)


def _decode(text: bytes, client: int) -> str:
    """Decode `text` of a client with this collation, as a column of its character set; KeyError for one unknown.

    Text that is ASCII needs no character set that we know: of those that a client
    may have, only swe7 has anything else there.
    """
    if client not in CHARSETS and client != _CLIENT_UNTOLD and text.isascii():
        return text.decode("ascii")
    # Names of savepoints the server writes itself, and always so.
    is_utf8_anyway = client == _CLIENT_UNTOLD or text[:12].upper().startswith((b"SAVEPOINT ", b"ROLLBACK TO "))
    charset = BINARY if is_utf8_anyway else CHARSETS[client]
    if charset == BINARY or is_utf8(charset):
        return text.decode("utf-8", "surrogateescape")
    decode = text_decoder(charset)
    try:
        return decode(text)
    except UnicodeDecodeError:
        return _escaped(text, decode, BYTES_PER_CHARACTER[charset])


def _escaped(text: bytes, decode: Callable[[bytes], str], character_bytes_max: int) -> str:
    """Decode one character after the other. A byte with which none begins becomes a lone surrogate, or stays ASCII."""
    pieces, at = list[str](), 0
    while at < len(text):
        for end in range(at + 1, at + 1 + character_bytes_max):
            try:
                pieces.append(decode(text[at:end]))
            except UnicodeDecodeError:
                continue
            break
        else:
            end = at + 1
            pieces.append(text[at:end].decode("ascii", "surrogateescape"))
        at = end
    return "".join(pieces)


def _session(status: bytes) -> SqlSession:
    """Read the status variables up to the first one whose width we do not know: what we want comes before."""
    reader = BytesReader(status)
    session = SqlSession()
    while reader.left:
        code = reader.integer(1)
        if code == _STATUS_CHARSET:
            client, connection, server = reader.integer(2), reader.integer(2), reader.integer(2)
            session = replace(session, client=client, connection=connection, server=server)
        elif code == _STATUS_SQL_MODE:
            session = replace(session, sql_mode=reader.integer(8))
        elif code == _STATUS_FLAGS:
            session = replace(session, explicit_timestamps=bool(reader.integer(4) & _FLAG_TIMESTAMPS) or None)
        elif code == _STATUS_TIME_ZONE:
            session = replace(session, time_zone=bytes(reader.take(reader.integer(1))).decode("ascii", "replace"))
        elif code in _STATUS_MICROSECONDS:
            session = replace(session, microseconds=reader.integer(3))
        elif code == _STATUS_TIMESTAMPS:
            session = replace(session, explicit_timestamps=bool(reader.integer(1)))
        elif not _passed_over(code, reader):
            break
    return session


def _passed_over(code: int, reader: BytesReader) -> bool:
    """Step over the value of a status variable; False if we do not know how long it is."""
    if code in _STATUS_FIXED_WIDTHS:
        reader.take(_STATUS_FIXED_WIDTHS[code])
    elif code in _STATUS_TEXTS or code == _STATUS_CATALOG_WITH_NUL:
        for _ in range(_STATUS_TEXTS.get(code, 1)):
            reader.take(reader.integer(1) + (code == _STATUS_CATALOG_WITH_NUL))
    elif code == _STATUS_SCHEMAS:
        count = reader.integer(1)
        for _ in range(count if count != _SCHEMAS_UNTOLD else 0):
            while reader.integer(1):
                pass
    else:
        return False
    return True
