"""The character set of a collation, by the number that servers and clients have for it.

Sources: MySQL Reference Manual, "SHOW COLLATION"; MariaDB Knowledge Base, "Supported Character Sets and
Collations"; include/m_ctype.h of MariaDB for its NOPAD and UCA 14.0.0 collations (a test asks the servers).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BINARY: Final = "binary"
"""The character set of bytes that have none."""

_IDS: Final[Mapping[str, Iterable[int]]] = {
    "big5": (1, 84), "latin2": (2, 9, 21, 27, 77), "dec8": (3, 69), "cp850": (4, 80), "hp8": (6, 72), "koi8r": (7, 74),
    "latin1": (5, 8, 15, 31, 47, 48, 49, 94), "swe7": (10, 82), "ascii": (11, 65), "ujis": (12, 91), "sjis": (13, 88),
    "cp1251": (14, 23, 50, 51, 52), "hebrew": (16, 71), "tis620": (18, 89), "euckr": (19, 85), "koi8u": (22, 75),
    "latin7": (20, 41, 42, 79), "gb2312": (24, 86), "greek": (25, 70), "cp1250": (26, 34, 44, 66, 99), "gbk": (28, 87),
    "cp1257": (29, 58, 59), "latin5": (30, 78), "armscii8": (32, 64), "cp866": (36, 68), "keybcs2": (37, 73),
    "macce": (38, 43), "macroman": (39, 53), "cp852": (40, 81), "cp1256": (57, 67), "geostd8": (92, 93),
    "cp932": (95, 96), "eucjpms": (97, 98), "gb18030": (248, 249, 250), BINARY: (63,),
    "utf8mb3": (33, 76, 83, *range(192, 216), 223, *range(576, 580)),
    "utf8mb4": (45, 46, *range(224, 248), *range(255, 324), *range(608, 612)),
    "ucs2": (35, 90, *range(128, 152), 159, *range(640, 643)),
    "utf16": (54, 55, *range(101, 125), *range(672, 675)),
    "utf16le": (56, 62),
    "utf32": (60, 61, *range(160, 184), *range(736, 739)),
}  # fmt: skip
_NO_PAD: Final = 1024
"""What MariaDB adds for the same collation without padding."""
_UCA_1400: Final[Mapping[str, Iterable[int]]] = {
    charset: range(2048 + 256 * number, 2048 + 256 * (number + 1))
    for number, charset in enumerate(("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"))
}

CHARSETS: Final[Mapping[int, str]] = {
    number: charset
    for charset, ids in chain(_IDS.items(), _UCA_1400.items())
    for number in chain(ids, (each + _NO_PAD for each in ids if each < _NO_PAD))
}
"""The character set of every collation of MySQL and MariaDB, and of numbers between theirs that are free."""
