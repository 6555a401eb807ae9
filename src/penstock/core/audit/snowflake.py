"""What Snowflake calls the functions that signatures are made of.

Sources: Snowflake SQL reference, "String & binary functions", "TO_CHAR", "TO_DECIMAL, TO_NUMBER,
TO_NUMERIC" (the format X is of hexadecimal digits), "SQL format models" and "Arithmetic operators": a
quotient has at most 12 digits behind the point, so that only what divides evenly is divided.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from penstock.core.audit.dialects import AuditDialect

_DIVIDE: Final = "CAST(({0} - MOD({0}, {1})) / {1} AS NUMBER(38, 0))"

SNOWFLAKE: Final = AuditDialect(
    name="snowflake",
    quote='"',
    texts=MappingProxyType(
        {
            "boolean": "CAST(CAST({0} AS INTEGER) AS VARCHAR)",
            "integer": "CAST({0} AS VARCHAR)",
            "decimal": "CAST({0} AS VARCHAR)",
            "text": "CAST({0} AS VARCHAR)",
            "bytes": "HEX_ENCODE({0}, 0)",
            "date": "TO_CHAR({0}, 'YYYY-MM-DD')",
            "datetime": "TO_CHAR({0}, 'YYYY-MM-DD HH24:MI:SS.FF6')",
            "timestamp": "TO_CHAR(CONVERT_TIMEZONE('UTC', {0}), 'YYYY-MM-DD HH24:MI:SS.FF6')",
            # A span of time is a number of microseconds already.
            "time": "CAST({0} AS VARCHAR)",
        }
    ),
    float_text="CAST(CAST({0} AS FLOAT) AS VARCHAR)",
    mantissa="SPLIT_PART({0}, 'e', 1)",
    exponent="CASE WHEN POSITION('e' IN {0}) > 0 THEN CAST(SPLIT_PART({0}, 'e', 2) AS INTEGER) ELSE 0 END",
    characters="LENGTH({0})",
    without_zeros_before="REGEXP_REPLACE({0}, '^0+', '')",
    without_zeros_behind="REGEXP_REPLACE({0}, '0+$', '')",
    hashes=MappingProxyType({"sha256": "LEFT(SHA2({0}, 256), 32)", "classic": "MD5({0})"}),
    word="TO_NUMBER({0}, 'XXXXXXXX')",
    divide=_DIVIDE,
    divide_wide=_DIVIDE,
    bytes_length="OCTET_LENGTH({0})",
    # All of these are whole numbers; the stand-in's sums are not.
    as_text="CAST(CAST({0} AS NUMBER(38, 0)) AS VARCHAR)",
    text_literal="HEX_DECODE_STRING('{0}')",
    bytes_literal="TO_BINARY('{0}', 'HEX')",
    scans=True,
    reads_whole=True,
)
"""Snowflake, in a session in UTC. It prints a FLOAT with the digits that give it back."""
