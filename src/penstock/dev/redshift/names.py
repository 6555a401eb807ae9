"""Names: folded to lower case, at most 127 bytes, and some words are reserved.

Source: Amazon Redshift Database Developer Guide, "Names and identifiers" and "Reserved words".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.tokens import SqlTokenKind

if TYPE_CHECKING:
    from penstock.dev.redshift.tokens import Token

_BYTES_MAX = 127
# PostgreSQL cuts names off at this many bytes.
_BACKEND_BYTES_MAX = 63

RESERVED = frozenset(
    """
    AES128 AES256 ALL ALLOWOVERWRITE ANALYSE ANALYZE AND ANY ARRAY AS ASC AUTHORIZATION AZ64 BACKUP BETWEEN BINARY
    BLANKSASNULL BOTH BYTEDICT BZIP2 CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE CREDENTIALS CROSS CURRENT_DATE
    CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURRENT_USER_ID DEFAULT DEFERRABLE DEFLATE DEFRAG DELTA DELTA32K DESC
    DISABLE DISTINCT DO ELSE EMPTYASNULL ENABLE ENCODE ENCRYPT ENCRYPTION END EXCEPT EXPLICIT FALSE FOR FOREIGN FREEZE
    FROM FULL GLOBALDICT256 GLOBALDICT64K GRANT GROUP GZIP HAVING IDENTITY IGNORE ILIKE IN INITIALLY INNER INTERSECT
    INTERVAL INTO IS ISNULL JOIN LEADING LEFT LIKE LIMIT LOCALTIME LOCALTIMESTAMP LUN LUNS LZO LZOP MINUS MOSTLY16
    MOSTLY32 MOSTLY8 NATURAL NEW NOT NOTNULL NULL NULLS OFF OFFLINE OFFSET OID OLD ON ONLY OPEN OR ORDER OUTER OVERLAPS
    PARALLEL PARTITION PERCENT PERMISSIONS PIVOT PLACING PRIMARY RAW READRATIO RECOVER REFERENCES REJECTLOG RESORT
    RESPECT RESTORE RIGHT SELECT SESSION_USER SIMILAR SNAPSHOT SOME SYSDATE SYSTEM TABLE TAG TDES TEXT255 TEXT32K THEN
    TIMESTAMP TO TOP TRAILING TRUE TRUNCATECOLUMNS UNION UNIQUE UNNEST UNPIVOT USER USING VERBOSE WALLET WHEN WHERE WITH
    WITHOUT
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
"""Words that name a table or column only in double quotes."""


def checked_name(token: Token) -> str:
    """A name where a statement defines or lists one, quoted for PostgreSQL; RedshiftError for a reserved word."""
    if token.kind not in {SqlTokenKind.WORD, SqlTokenKind.QUOTED} or token.word in RESERVED:
        message = f'syntax error at or near "{token.text}"'
        hint = "reserved words must be in double quotes" if token.word in RESERVED else ""
        raise refuse(message, hint=hint, sqlstate="42601")
    return quoted(token.name)


def quoted(name: str) -> str:
    """A name in double quotes, as PostgreSQL stores it."""
    return '"' + stored(name).replace('"', '""') + '"'


def stored(name: str) -> str:
    """How PostgreSQL stores a name of Redshift's: one too long for it keeps its beginning and ends in a digest."""
    content = name.encode()[:_BYTES_MAX]
    if len(content) <= _BACKEND_BYTES_MAX:
        return content.decode(errors="ignore")
    digest = hashlib.sha256(content).hexdigest()[:12]
    return content[: _BACKEND_BYTES_MAX - 13].decode(errors="ignore") + "~" + digest
