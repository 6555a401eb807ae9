"""Text in the character sets of MySQL and MariaDB, to Unicode as the servers themselves convert it.

Python's codecs where they agree with the servers, tables and small rules where
they do not. What a server would print as a question mark, because it knows no
character for it, is refused. Sources: MySQL Reference Manual, "Supported
Character Sets and Collations"; MariaDB 10.11 asked for every sequence of bytes
(a test asks it again).
"""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.core.mysql.types.charset_tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CODECS: Final = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8_r",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "cp932": "cp932",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
}
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_NOT_ASCII: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32", "swe7"})
"""Those in which bytes below 0x80 may be something else than ASCII."""

_BIG5: Final = {
    b"\xa1\x5a": None, b"\xa1\xc3": None, b"\xa1\xc5": None, b"\xa1\xfe": None, b"\xa2\x40": None,
    b"\xa2\xcc": None, b"\xa2\xce": None, b"\xf9\xd6": "碁", b"\xf9\xd7": "銹", b"\xf9\xd8": "裏",
    b"\xf9\xd9": "墻", b"\xf9\xda": "恒", b"\xf9\xdb": "粧", b"\xf9\xdc": "嫺",
}  # fmt: skip
_SJIS: Final = {b"\x81\x5f": "\\"}
_UJIS: Final = {b"\xa1\xc0": "\\"}
_EUCJPMS: Final = {b"\x8f\xa2\xb7": "～", b"\x8f\xa2\xc3": "￤"}
_EUCJPMS_IBM: Final = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏\ufa10"
    "增寬峵嵓﨑德悅愠敎昻晥\ufa12\uf929栁﨓﨔橫櫢淸淲瀨\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠"
    "緖\ufa1e荢﨟薰\ufa20﨡蠇\ufa22譿賴赶﨣﨤\ufa25郞\ufa26鄕﨧﨨閒\uf9dc﨩霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"
)
_EUC_ROW: Final = 94
_EUC_FIRST: Final = 0xA1
_EUC_IBM_FIRST: Final = 0xF3 * _EUC_ROW + 0xF3 - _EUC_FIRST
_EUC_USER_ROW: Final = 0xF5
_PRIVATE_2: Final = 0xE000
_PRIVATE_3: Final = 0xE3AC
_SINGLE_SHIFT_3: Final = 0x8F
_SINGLE_SHIFT_2: Final = 0x8E
_HALF_WIDTH: Final = range(0xA1, 0xE0)
_GB18030_2005: Final = {
    ord(b"\xa8\xbc".decode("gb18030")): "\u1e3f",
    ord(b"\x81\x35\xf4\x37".decode("gb18030")): "\ue7c7",
}
"""What MySQL has for the two characters that Python's codec, of the year 2000, has the other way round."""
_FREE_IN_WINDOWS: Final = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})
_WINDOWS: Final = {code: bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in _FREE_IN_WINDOWS}

BYTES_PER_CHARACTER: Final[Mapping[str, int]] = {
    **dict.fromkeys(("latin1", "ascii", *TABLES), 1),
    **dict.fromkeys(("cp850", "cp852", "koi8r", "latin2", "latin5", "latin7", "macce", "macroman"), 1),
    **dict.fromkeys(("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ucs2"), 2),
    **dict.fromkeys(("ujis", "eucjpms", "utf8mb3"), 3),
    **dict.fromkeys(("gb18030", "utf16", "utf16le", "utf32", "utf8mb4"), 4),
}
"""The character sets that we read, and how many bytes their longest characters have."""


def is_utf8(charset: str) -> bool:
    """Whether the bytes of `charset` are UTF-8."""
    return charset in _UTF8


def has_ascii(charset: str) -> bool:
    """Whether bytes that are all below 0x80 are ASCII in `charset`."""
    return charset not in _NOT_ASCII


def has_character_for_every_byte(charset: str) -> bool:
    """Whether text in `charset` is any bytes at all, so that the servers print all of it."""
    if BYTES_PER_CHARACTER.get(charset) != 1:
        return False
    try:
        return len(text_decoder(charset)(bytes(range(256)))) == 256  # noqa: PLR2004 - all bytes
    except UnicodeDecodeError:
        return False


def text_decoder(charset: str) -> Callable[[bytes], str]:
    """Return the function that decodes text in `charset`, one of BYTES_PER_CHARACTER; KeyError for another.

    It raises UnicodeDecodeError for bytes that are no text in `charset`, or
    have no character in Unicode.
    """
    if charset in TABLES:
        characters = _one_byte_characters(charset)
        return lambda raw: codecs.charmap_decode(raw, "strict", characters)[0]
    if charset in _BY_CHARACTER:
        return _BY_CHARACTER[charset]
    if charset in _BY_TEXT:
        return _BY_TEXT[charset]
    codec = _CODECS[charset]
    return lambda raw: raw.decode(codec)


def _one_byte_characters(charset: str) -> str:
    """The characters of the bytes 0x00 to 0xFF in one of TABLES; U+FFFE for a byte that has none."""
    table = TABLES[charset]
    ascii_half = "" if len(table) == 256 else bytes(range(128)).decode("ascii")  # noqa: PLR2004 - all bytes
    return ascii_half + table


def _latin1(raw: bytes) -> str:
    """MySQL's latin1 is Windows-1252, with the five bytes that are free there taken as control characters."""
    return raw.decode("latin1").translate(_WINDOWS)


def _ucs2(raw: bytes) -> str:
    text = raw.decode("utf-16-be")
    if 2 * len(text) != len(raw):
        _refuse("ucs2", raw, "a character of more than two bytes")
    return text


def _gb18030(raw: bytes) -> str:
    return raw.decode("gb18030").translate(_GB18030_2005)


_BY_TEXT: Final[Mapping[str, Callable[[bytes], str]]] = {"latin1": _latin1, "ucs2": _ucs2, "gb18030": _gb18030}


def _refuse(charset: str, raw: bytes, reason: str) -> NoReturn:
    raise UnicodeDecodeError(charset, raw, 0, len(raw), reason)


def _by_character(raw: bytes, decode: Callable[[bytes], str], length: Callable[[int], int]) -> str:
    """Decode one character after the other; `length` tells how many bytes one has by its first."""
    characters = []
    at = 0
    while at < len(raw):
        size = length(raw[at])
        characters.append(decode(raw[at : at + size]))
        at += size
    return "".join(characters)


def _two_bytes(first: int) -> int:
    return 1 if first < 0x80 else 2  # noqa: PLR2004 - ASCII


def _sjis_bytes(first: int) -> int:
    return 1 if first < 0x80 or first in _HALF_WIDTH else 2  # noqa: PLR2004 - ASCII


def _euc_bytes(first: int) -> int:
    return 3 if first == _SINGLE_SHIFT_3 else _two_bytes(first)


@lru_cache(maxsize=16_384)
def _big5_character(raw: bytes) -> str:
    return _overridden(raw, _BIG5) or raw.decode("big5")


@lru_cache(maxsize=16_384)
def _sjis_character(raw: bytes) -> str:
    return _overridden(raw, _SJIS) or raw.decode("shift_jis")


@lru_cache(maxsize=16_384)
def _ujis_character(raw: bytes) -> str:
    return _overridden(raw, _UJIS) or _euc_user_defined(raw) or raw.decode("euc_jp")


@lru_cache(maxsize=16_384)
def _eucjpms_character(raw: bytes) -> str:
    """The rows of JIS X 0208 are those of Microsoft's code page 932, where they stand in another order."""
    if found := _overridden(raw, _EUCJPMS) or _euc_user_defined(raw) or _euc_ibm(raw):
        return found
    if len(raw) != 2 or raw[0] == _SINGLE_SHIFT_2:  # noqa: PLR2004 - a character of JIS X 0208 has two bytes
        return raw.decode("euc_jp")
    row, cell = raw[0] - _EUC_FIRST, raw[1] - _EUC_FIRST
    if not (0 <= row < _EUC_ROW and 0 <= cell < _EUC_ROW):
        return raw.decode("euc_jp")
    lead = row // 2 + (0x81 if row < 0x3E else 0xC1)  # noqa: PLR2004 - half-width characters lie between
    trail = cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 0x3F)  # noqa: PLR2004 - 0x7F is left out
    return bytes([lead, trail]).decode("cp932")


def _overridden(raw: bytes, overrides: Mapping[bytes, str | None]) -> str | None:
    found = overrides.get(raw, "")
    if found is None:
        _refuse("big5", raw, "the server knows no character for it")
    return found


def _euc_user_defined(raw: bytes) -> str:
    """Rows 85 to 94 are for characters of one's own, which are the private ones in Unicode; "" for another."""
    row, cell = raw[-2:] if len(raw) > 1 else (0, 0)
    if row < _EUC_USER_ROW or row >= _EUC_FIRST + _EUC_ROW or not _EUC_FIRST <= cell < _EUC_FIRST + _EUC_ROW:
        return ""
    is_long = raw[0] == _SINGLE_SHIFT_3
    if len(raw) != 2 + is_long:
        return ""
    return chr((_PRIVATE_3 if is_long else _PRIVATE_2) + (row - _EUC_USER_ROW) * _EUC_ROW + cell - _EUC_FIRST)


def _euc_ibm(raw: bytes) -> str:
    if len(raw) != 3 or raw[0] != _SINGLE_SHIFT_3:  # noqa: PLR2004 - with its shift
        return ""
    index = raw[1] * _EUC_ROW + raw[2] - _EUC_FIRST - _EUC_IBM_FIRST
    return _EUCJPMS_IBM[index] if 0 <= index < len(_EUCJPMS_IBM) else ""


_BY_CHARACTER: Final[Mapping[str, Callable[[bytes], str]]] = {
    "big5": lambda raw: _by_character(raw, _big5_character, _two_bytes),
    "sjis": lambda raw: _by_character(raw, _sjis_character, _sjis_bytes),
    "ujis": lambda raw: _by_character(raw, _ujis_character, _euc_bytes),
    "eucjpms": lambda raw: _by_character(raw, _eucjpms_character, _euc_bytes),
}
