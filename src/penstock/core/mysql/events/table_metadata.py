"""The optional metadata of TABLE_MAP events: what a server says of a table's columns beside their types.

Source: MySQL's `Table_map_event::Optional_metadata_fields`, and MariaDB's
`Table_map_log_event::Optional_metadata_fields`, which is the same. With
binlog_row_metadata=MINIMAL there are signs and character sets alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER, text_decoder
from penstock.core.mysql.types.collations import BINARY, CHARSETS
from penstock.core.mysql.types.column_codes import (
    BLOB_COMPRESSED,
    BLOBS,
    ENUM,
    GEOMETRY,
    NUMERIC,
    SET,
    STRING,
    VAR_STRING,
    VARCHAR,
    VARCHAR_COMPRESSED,
    VECTOR,
    YEAR,
    string_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGNEDNESS: Final = 1
_DEFAULT_CHARSET: Final = 2
_COLUMN_CHARSET: Final = 3
_COLUMN_NAMES: Final = 4
_SET_LABELS: Final = 5
_ENUM_LABELS: Final = 6
_KEY: Final = 8
_KEY_WITH_PREFIXES: Final = 9
_DEFAULT_LABEL_CHARSET: Final = 10
_LABEL_CHARSET: Final = 11
_TEXTS: Final = BLOBS | {STRING, VAR_STRING, VARCHAR, VECTOR}
_TEXTS_OF_MARIADB: Final = _TEXTS | {VARCHAR_COMPRESSED, BLOB_COMPRESSED, GEOMETRY}
"""Types that count where columns with a character set are numbered."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What the server says of each column; a field is empty (`key` None) where it says nothing, or what we do not know.

    `charsets`  "binary" for bytes, "" for columns that are no text
    `labels`    of ENUM and SET columns, () for others
    `key`       the columns of the primary key in key order, () where there is none
    """

    names: tuple[str, ...] = ()
    unsigned: tuple[bool, ...] = ()
    charsets: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    key: tuple[int, ...] | None = None


def parse_metadata(
    reader: BytesReader, types: Sequence[int], metadata: Sequence[int], *, is_mariadb: bool
) -> TableMetadata:
    """Read to the end of the event. Raises MalformedError for bytes that are no metadata.

    MariaDB writes a SIGNEDNESS bit for YEAR columns too, and so does MySQL in some
    versions: there it is not read where the table has one (`unsigned` stays empty).
    """
    fields: dict[int, bytes] = {}
    while reader.left:
        field = reader.integer(1)
        fields[field] = bytes(reader.take(reader.length()))
    kinds = [_kind(code, said) for code, said in zip(types, metadata, strict=True)]
    texts = _TEXTS_OF_MARIADB if is_mariadb else _TEXTS
    names = _names(BytesReader(fields[_COLUMN_NAMES]), len(types)) if _COLUMN_NAMES in fields else ()
    has_signs = _SIGNEDNESS in fields and (is_mariadb or YEAR not in types)
    return TableMetadata(
        names,
        _signedness(fields[_SIGNEDNESS], types) if has_signs else (),
        _charsets(fields, [kind in texts for kind in kinds], (_DEFAULT_CHARSET, _COLUMN_CHARSET)),
        _labels(fields, kinds),
        _key(fields, len(types)) if names else None,
    )


def _kind(code: int, metadata: int) -> int:
    return string_type(metadata)[0] if code == STRING else code


def _names(reader: BytesReader, columns: int) -> tuple[str, ...]:
    names = []
    while reader.left:
        names.append(reader.text(reader.length()))
    if len(names) != columns:
        message = f"{len(names)} column names for {columns} columns"
        raise MalformedError(message)
    return tuple(names)


def _signedness(value: bytes, types: Sequence[int]) -> tuple[bool, ...]:
    """Spread the bits, which only numeric columns have, over all columns."""
    numeric = NUMERIC | {YEAR}
    count = sum(code in numeric for code in types)
    if len(value) * 8 < count:
        message = f"{len(value)} bytes hold no {count} flags"
        raise MalformedError(message)
    bits = iter(bool(value[i >> 3] & 0x80 >> (i & 7)) for i in range(count))
    return tuple(code in numeric and next(bits) for code in types)


def _charsets(fields: Mapping[int, bytes], have: Sequence[bool], where: tuple[int, int]) -> tuple[str, ...]:
    """Return the character set of each column that has one, "" of the others; () where the server does not say."""
    count = sum(have)
    default, each = (_lengths(fields.get(field)) for field in where)
    if len(each) == count > 0:
        collations = each
    elif len(default) % 2:
        others = dict(_pairs(default[1:]))
        collations = [others.get(index, default[0]) for index in range(count)]
    else:
        return ()
    of_column = iter(CHARSETS.get(collation, "") for collation in collations)
    return tuple(next(of_column) if has else "" for has in have)


def _pairs(values: Sequence[int]) -> Sequence[tuple[int, int]]:
    if len(values) % 2:
        message = f"{len(values)} numbers are no pairs"
        raise MalformedError(message)
    return list(zip(values[::2], values[1::2], strict=True))


def _lengths(value: bytes | None) -> Sequence[int]:
    reader, found = BytesReader(value or b""), []
    while reader.left:
        found.append(reader.length())
    return found


def _labels(fields: Mapping[int, bytes], kinds: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the labels of every ENUM and SET; () where one of them is not told, or not to be read."""
    charsets = _charsets(fields, [kind in {ENUM, SET} for kind in kinds], (_DEFAULT_LABEL_CHARSET, _LABEL_CHARSET))
    if not charsets:
        return ()
    readers = {ENUM: BytesReader(fields.get(_ENUM_LABELS, b"")), SET: BytesReader(fields.get(_SET_LABELS, b""))}
    labels: list[tuple[str, ...]] = []
    for kind, charset in zip(kinds, charsets, strict=True):
        reader = readers.get(kind)
        if reader is None:
            labels.append(())
        elif not reader.left or (charset not in BYTES_PER_CHARACTER and charset != BINARY):
            return ()
        else:
            decode = bytes.decode if charset == BINARY else text_decoder(charset)
            try:
                labels.append(tuple(decode(bytes(reader.take(reader.length()))) for _ in range(reader.length())))
            except UnicodeDecodeError:
                return ()
    return tuple(labels)


def _key(fields: Mapping[int, bytes], columns: int) -> tuple[int, ...]:
    if _KEY_WITH_PREFIXES in fields:
        key = tuple(index for index, _ in _pairs(_lengths(fields[_KEY_WITH_PREFIXES])))
    else:
        key = tuple(_lengths(fields.get(_KEY)))
    if any(index >= columns for index in key):
        message = f"a key of the columns {list(key)} of {columns}"
        raise MalformedError(message)
    return key
