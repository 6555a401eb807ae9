"""Avro's decimals: the unscaled value, big-endian, in two's complement.

The width of a value is the one fastavro writes: `bit_length // 8 + 1` bytes of
its magnitude. It is the shortest, except for -128, -32768 and so on, which get
one byte more; every reader of two's complement reads both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.avro.buffers import binary_array
from penstock.core.avro.words import EncodedWords

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.avro.arrays import Flags, Integers, Octets, Unsigned


def decimal_bytes(unscaled: int) -> bytes:
    """Encode one unscaled value, without its length."""
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def narrow_words(unscaled: Integers) -> Sequence[EncodedWords]:
    """Encode values with a magnitude below 2**62, length and value, in two words per row."""
    widths = _widths(np.abs(unscaled).view(np.uint64))
    return [EncodedWords(widths.astype(np.uint64) << np.uint64(1), np.ones_like(widths)), _leading(unscaled, widths)]


def unsigned_words(values: Unsigned) -> Sequence[EncodedWords]:
    """Encode integers of 64 bits without a sign, length and value, in two words per row."""
    nine = values >> np.uint64(63)
    widths = np.where(nine != 0, np.uint8(8), _widths(values)).astype(np.uint8)
    # A value with its top bit set gets a zero byte before it, here with its length.
    lengths = (widths.astype(np.uint64) + nine) << np.uint64(1)
    return [EncodedWords(lengths, nine.astype(np.uint8) + np.uint8(1)), _leading(values.view(np.int64), widths)]


def wide_bytes(words: Unsigned, valid: Flags | None) -> pa.BinaryArray:
    """Encode values of several words, without their length; no bytes for those that are not valid.

    `words` is uint64[n, w], two's complement with the lowest word first, as
    Arrow's decimal128 (w = 2) and decimal256 (w = 4) hold it.
    """
    rows, width = len(words), 8 * words.shape[1]
    big_endian = np.ascontiguousarray(words[:, ::-1]).byteswap().view(np.uint8).reshape(rows, width)
    magnitude = np.ascontiguousarray(_magnitude(words)[:, ::-1]).byteswap().view(np.uint8).reshape(rows, width)
    first = np.where(magnitude.any(axis=1), (magnitude != 0).argmax(axis=1), width - 1)
    widths = width - first + (magnitude[np.arange(rows), first] >> 7)
    if valid is not None:
        widths *= valid
    used = np.arange(width) >= (width - widths)[:, np.newaxis]
    return binary_array(widths.cumsum(), big_endian[used])


def _widths(magnitudes: Unsigned) -> Octets:
    """Return `bit_length // 8 + 1` of values below 2**63: the bytes that twice the value needs, at least one."""
    smeared = magnitudes << np.uint64(1)
    smeared |= smeared >> np.uint64(8)
    smeared |= smeared >> np.uint64(16)
    smeared |= smeared >> np.uint64(32)
    sevens = np.uint64(0x7F7F7F7F7F7F7F7F)
    used = (((smeared & sevens) + sevens) | smeared) & ~sevens
    widths: Octets = np.maximum(np.bitwise_count(used), np.uint8(1))
    return widths


def _leading(values: Integers, widths: Octets) -> EncodedWords:
    shifted = values.view(np.uint64) << (np.uint64(64) - widths.astype(np.uint64) * np.uint64(8))
    return EncodedWords(shifted.byteswap(), widths)


def _magnitude(words: Unsigned) -> Unsigned:
    negative = words[:, -1] >> np.uint64(63)
    inverted = words ^ (np.uint64(0) - negative)[:, np.newaxis]
    carry = negative
    for place in range(words.shape[1]):
        inverted[:, place] += carry
        carry = carry & (inverted[:, place] == 0)
    return inverted
