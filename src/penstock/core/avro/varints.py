"""Avro's integers: zig-zag, then seven bits to a byte, lowest first, the eighth bit set on all but the last.

Source: Avro specification, "Primitive types" (binary encoding).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.avro.words import EncodedWords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.arrays import Integers, Unsigned

_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))
_LOW_7: Final = 0x7F
_LOW_14: Final = 0x3FFF
_WORD_BITS: Final = 56
_TOP_BITS: Final = np.uint64(0x8080808080808080)
_ALL_SEVENS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)


def varint(value: int) -> bytes:
    """Encode one signed integer of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    if rest <= _LOW_7:
        return _ONE_BYTE[rest]
    # Sizes of texts and offsets in files, without the loop.
    if rest <= _LOW_14:
        return bytes((rest & _LOW_7 | 0x80, rest >> 7))
    encoded = [rest & _LOW_7 | 0x80, rest >> 7 & _LOW_7 | 0x80]
    rest >>= 14
    while rest > _LOW_7:
        encoded.append(rest & _LOW_7 | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def varint_words(values: Integers) -> Sequence[EncodedWords]:
    """Encode int64[n], in one word per row, or two where the largest needs more than 56 bits."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(zigzag.max(initial=0))
    if largest <= _LOW_7:
        return [EncodedWords(zigzag, np.ones(len(values), dtype=np.uint8))]
    if largest < 1 << _WORD_BITS:
        return [_in_one_word(zigzag)]
    return _in_two_words(zigzag)


def _in_one_word(zigzag: Unsigned) -> EncodedWords:
    """Encode values below 2**56."""
    sevens = _spread(zigzag)
    smeared = sevens | (sevens >> np.uint64(8))
    smeared |= smeared >> np.uint64(16)
    smeared |= smeared >> np.uint64(32)
    # A top bit for every byte that another byte follows.
    more = ((smeared + _ALL_SEVENS) & _TOP_BITS) >> np.uint64(8)
    return EncodedWords(sevens | more, np.bitwise_count(more) + np.uint8(1))


def _in_two_words(zigzag: Unsigned) -> Sequence[EncodedWords]:
    high, below = zigzag >> np.uint64(_WORD_BITS), zigzag & np.uint64((1 << _WORD_BITS) - 1)
    low = _in_one_word(below)
    two = high != 0
    first = EncodedWords(
        np.where(two, _spread(below) | _TOP_BITS, low.octets),
        np.where(two, np.uint8(8), low.lengths).astype(np.uint8),
    )
    ten = high > np.uint64(_LOW_7)
    # Of the eight bits that are left the ninth byte takes seven. The eighth stands
    # where that byte says that a tenth follows, and is all that the tenth holds.
    second = np.where(ten, high | np.uint64(0x100), high)
    return [first, EncodedWords(second, two.astype(np.uint8) + ten.astype(np.uint8))]


def _spread(values: Unsigned) -> Unsigned:
    """Put each seven of the lowest 56 bits into a byte of its own."""
    spread = (values & np.uint64(0x000000000FFFFFFF)) | ((values & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4))
    spread = (spread & np.uint64(0x00003FFF00003FFF)) | ((spread & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2))
    return (spread & np.uint64(0x007F007F007F007F)) | ((spread & np.uint64(0x3F803F803F803F80)) << np.uint64(1))
