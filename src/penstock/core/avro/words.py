"""Bytes of many rows at once, in machine words: how the encoder puts short fields together.

A `EncodedWords` holds at most eight bytes of every row. Rows are put together by
writing whole words at their byte positions, one after the other in the order of
the output, so that what a word has beyond its length is overwritten by the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.avro.buffers import binary_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.avro.arrays import Flags, Octets, Unsigned

WORD_BYTES: Final = 8
# Little-endian whatever the machine: the lowest byte of a word comes first in the output.
_WORD: Final = np.dtype("<u8")


@dataclass(frozen=True, slots=True)
class EncodedWords:
    """Up to eight bytes per row: the `lengths[i]` lowest bytes of `octets[i]`, lowest first."""

    octets: Unsigned
    lengths: Octets


def constant_word(content: bytes, rows: int) -> EncodedWords:
    """Return the same bytes (at most eight) for every row."""
    word = np.uint64(int.from_bytes(content, "little"))
    return EncodedWords(np.full(rows, word), np.full(rows, len(content), dtype=np.uint8))


def prefixed(prefix: bytes, words: Sequence[EncodedWords]) -> Sequence[EncodedWords]:
    """Put the same few bytes before the first of `words`, in one word with it where they fit."""
    first, *others = words
    if int(first.lengths.max(initial=0)) + len(prefix) > WORD_BYTES:
        return [constant_word(prefix, len(first.octets)), *words]
    low = np.uint64(int.from_bytes(prefix, "little"))
    octets = (first.octets << np.uint64(8 * len(prefix))) | low
    return [EncodedWords(octets, first.lengths + np.uint8(len(prefix))), *others]


def where_valid(valid: Flags, words: Sequence[EncodedWords], otherwise: bytes) -> Sequence[EncodedWords]:
    """Replace the bytes of rows that are not valid by `otherwise`."""
    first, *others = words
    low = np.uint64(int.from_bytes(otherwise, "little"))
    replaced = EncodedWords(
        np.where(valid, first.octets, low), np.where(valid, first.lengths, np.uint8(len(otherwise))).astype(np.uint8)
    )
    return [replaced, *(EncodedWords(word.octets, word.lengths * valid) for word in others)]


def concatenated(words: Sequence[EncodedWords]) -> pa.BinaryArray:
    """Return the bytes of `words`, one after the other, of every row."""
    rows = len(words[0].octets)
    lengths = np.empty((rows, len(words)), dtype=np.int64)
    octets = np.empty((rows, len(words)), dtype=np.uint64)
    for place, word in enumerate(words):
        lengths[:, place] = word.lengths
        octets[:, place] = word.octets
    ends = lengths.ravel().cumsum()
    output = np.zeros((int(ends[-1]) if rows else 0) + WORD_BYTES, dtype=np.uint8)
    at_any_byte = np.ndarray((len(output) - WORD_BYTES + 1,), dtype=_WORD, buffer=output.data, strides=(1,))
    at_any_byte[ends - lengths.ravel()] = octets.ravel()
    return binary_array(ends[len(words) - 1 :: len(words)], output)
