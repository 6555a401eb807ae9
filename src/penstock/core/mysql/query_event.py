"""QUERY events: the text of a statement, its default schema and the character set it was typed in.

Source: MariaDB Knowledge Base, "Query_event" and "Query_compressed_event"; MySQL internals,
`Query_event` and `Execute_load_query_event` (LOAD DATA logged as a statement).
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from penstock.core.mysql.bytes_reader import BytesReader
from penstock.core.mysql.charsets import GB18030_2005, one_byte_characters
from penstock.core.mysql.compressed import inflate
from penstock.core.mysql.event_codes import EventCode as Code
from penstock.core.mysql.sql_session import SqlSession

STATEMENTS: Final = (Code.QUERY, Code.EXECUTE_LOAD_QUERY, Code.MARIADB_QUERY_COMPRESSED)
"""The events that hold the text of a statement."""

_LOAD_BYTES: Final = 13
_STATUS_FIXED_WIDTHS: Final = {3: 4, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3}
_STATUS_FLAGS: Final = 0
_STATUS_SQL_MODE: Final = 1
_STATUS_CATALOG_WITH_NUL: Final = 2
_STATUS_CHARSET: Final = 4
_STATUS_TEXTS: Final = {5: 1, 6: 1, 11: 2}
_STATUS_SCHEMAS: Final = 12
_STATUS_TIMESTAMPS: Final = 16
_SCHEMAS_UNTOLD: Final = 254
# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP; MySQL has a variable of its own, and no such flag.
_FLAG_TIMESTAMPS: Final = 1 << 24

# The ids a server writes are those of the default collations of character_set_client.
_CODECS: Final = {
    1: "big5", 4: "cp850", 7: "koi8_r", 8: "cp1252", 9: "iso8859_2", 11: "ascii", 12: "euc_jp", 13: "shift_jis",
    16: "iso8859_8", 18: "tis_620", 19: "euc_kr", 22: "koi8_u", 24: "gb2312", 25: "iso8859_7", 26: "cp1250",
    28: "gbk", 30: "iso8859_9", 36: "cp866", 38: "mac_latin2", 39: "mac_roman", 40: "cp852",
    41: "iso8859_13", 51: "cp1251", 57: "cp1256", 59: "cp1257",
    95: "cp932", 97: "euc_jp", 248: "gb18030",
}  # fmt: skip
# Those for which Python has no codec.
_TABLES: Final = {3: "dec8", 6: "hp8", 10: "swe7", 32: "armscii8", 37: "keybcs2", 92: "geostd8"}


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
    """Read one of the STATEMENTS after its header (checksum left out); MalformedError if it is none."""
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


def savepoint_of(sql: str) -> str:
    """Return the name behind SAVEPOINT or ROLLBACK TO, in one form for all that the server takes for the same.

    It writes the name as it was typed, and quotes it as the session wants it: with
    backticks, with ANSI_QUOTES as "name", with sql_quote_show_create=0 not at all.
    Neither case nor accents count: names are compared as utf8mb3_general_ci.
    """
    name = _BEFORE_SAVEPOINT.sub("", sql).strip()
    quote = name[:1]
    if quote in {"`", '"'}:
        name = name[1:-1].replace(quote * 2, quote)
    letters = (letter for letter in unicodedata.normalize("NFD", name) if not unicodedata.combining(letter))
    return "".join(letters).casefold()


_BEFORE_SAVEPOINT: Final = re.compile(r"\A(?:ROLLBACK TO|SAVEPOINT) ", re.IGNORECASE)
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
    if client not in _TABLES:
        codec = _CODECS.get(client, "utf-8")
        sql = text.decode(codec, "surrogateescape")
        return sql.translate(GB18030_2005) if codec == "gb18030" else sql
    return codecs.charmap_decode(text, "surrogateescape", one_byte_characters(_TABLES[client]))[0]


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
