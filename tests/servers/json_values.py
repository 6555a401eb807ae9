"""Random JSON documents of MySQL as SQL, and what may be done to them in part."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import strategies as st
from pymysql.converters import escape_string


def quoted(text: str) -> str:
    """Return a literal of SQL."""
    return f"'{escape_string(text)}'"


_DOUBLES: Final = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS: Final = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _DOUBLES | st.text(max_size=300)
_DOCUMENTS: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
)
_OF_SQL: Final = st.sampled_from(
    [
        "CAST(DATE'2024-02-29' AS JSON)",
        "CAST(TIME'-12:34:56.789' AS JSON)",
        "CAST(TIMESTAMP'2024-02-29 01:02:03.000004' AS JSON)",
        "CAST(-1234567890.0123456789 AS JSON)",
        "JSON_ARRAY(x'cafe', b'1', 1.50, REPEAT(x'cafe', 100))",
        "JSON_OBJECT('long', REPEAT('x', 70000), 'n', JSON_ARRAY(100000, -100000))",
    ]
)
DOCUMENTS: Final = _DOCUMENTS.map(lambda value: quoted(json.dumps(value, ensure_ascii=False))) | _OF_SQL

# What is put at some of these places is found there by what comes later.
_PLACES: Final = st.sampled_from(
    ["$.k", "$.k[0]", "$.k[last].m", "$[0]", "$[last]", "$[1].k", "$[7]", '$."é \\"x"']
).map(quoted)
_MEMBERS: Final = st.sampled_from(["NULL", "1", "2.50", "'text'", "x'cafe'", "JSON_OBJECT('m', 1)", "JSON_ARRAY(1, 2)"])
DIFFERENCES: Final = st.builds(
    "JSON_{}({{0}}, {}, {})".format, st.sampled_from(["SET", "REPLACE", "SET"]), _PLACES, _MEMBERS
) | st.builds("JSON_REMOVE({{0}}, {})".format, _PLACES)
"""Expressions of the new document, with {0} for the old one, which MySQL may log as differences."""
