"""What Amazon Redshift calls the functions that signatures are made of.

Sources: Amazon Redshift Database Developer Guide, "String functions", "Hash functions" (SHA2, MD5),
"STRTOL", "VARBYTE type", "Datetime format strings" and "Data type formatting functions".
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from penstock.core.audit.dialects import POSTGRES

_TEXT: Final = "CAST({0} AS VARCHAR(65535))"
"""Without a length it would be cut after 256 bytes."""

REDSHIFT: Final = replace(
    POSTGRES,
    name="redshift",
    texts=MappingProxyType(
        {
            "boolean": "CAST(CAST({0} AS INTEGER) AS VARCHAR)",
            "integer": "CAST({0} AS VARCHAR)",
            "decimal": "CAST({0} AS VARCHAR)",
            "text": _TEXT,
            "bytes": "LOWER(TO_HEX({0}))",
            "date": "TO_CHAR({0}, 'YYYY-MM-DD')",
            "datetime": "TO_CHAR({0}, 'YYYY-MM-DD HH24:MI:SS.US')",
            "timestamp": "TO_CHAR({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
            # A span of time is a number of microseconds already.
            "time": "CAST({0} AS VARCHAR)",
        }
    ),
    hashes=MappingProxyType({"sha256": "LEFT(SHA2({0}, 256), 32)", "classic": "MD5({0})"}),
    word="STRTOL({0}, 16)",
    # The quotient of decimals is rounded, so that only what divides evenly is divided.
    divide_wide="CAST(({0} - MOD({0}, {1})) / {1} AS DECIMAL(38, 0))",
    bytes_length="OCTET_LENGTH({0})",
    as_text="CAST({0} AS VARCHAR)",
    text_literal="FROM_VARBYTE(FROM_HEX('{0}'), 'utf8')",
    bytes_literal="FROM_HEX('{0}')",
    text_cast=_TEXT,
    scans=True,
    reads_whole=True,
    not_written=frozenset({"float"}),
    # What its leader would gather, and no fence there.
    fence="",
)
"""Amazon Redshift, in a session in UTC. It prints no float with the fewest digits that give it back."""

REDSHIFT_SUPER: Final = replace(REDSHIFT, keeps_json_text=False)
"""Amazon Redshift with JSON as SUPER, which is another text."""
