"""Columns of results, as Redshift describes them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMN = struct.Struct("!ihihih")
_VARCHAR = 1043
# The types of Redshift's own that its clients know.
REDSHIFT_TYPES = {"super": 4000, "varbyte": 6551, "geometry": 3000, "geography": 3001, "hllsketch": 4001}
_KNOWN = frozenset(
    [
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        28,
        114,
        600,
        700,
        701,
        702,
        705,
        790,
        829,
        869,
        1000,
        1002,
        1003,
        1005,
        1007,
        1009,
        1014,
        1015,
        1016,
        1021,
        1022,
        1028,
        1033,
        1034,
        1042,
        1043,
        1082,
        1083,
        1114,
        1115,
        1182,
        1183,
        1184,
        1185,
        1186,
        1187,
        1231,
        1263,
        1266,
        1700,
        2275,
        2277,
        2278,
        2950,
        2951,
        3802,
    ]
)


def translate_columns(body: bytes, types: Mapping[int, int]) -> bytes:
    """A RowDescription with Redshift's type numbers; `types` are the numbers that PostgreSQL gave Redshift's own.

    Types that Redshift's clients do not know become VARCHAR, as which they are sent anyway.
    """
    (count,) = struct.unpack_from("!H", body)
    parts, at = [body[:2]], 2
    for _ in range(count):
        end = body.index(b"\0", at) + 1
        table, number, type_id, size, modifier, form = _COLUMN.unpack_from(body, end)
        found = types.get(type_id, type_id if type_id in _KNOWN else _VARCHAR)
        parts += [body[at:end], _COLUMN.pack(table, number, found, size, modifier, form)]
        at = end + _COLUMN.size
    return b"".join(parts)
