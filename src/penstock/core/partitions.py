"""Which partition a key goes to, as Kafka's own clients choose it, for many keys at once.

Source: Apache Kafka, `org.apache.kafka.common.utils.Utils.murmur2` and
`BuiltInPartitioner.partitionForKey`: MurmurHash2 (Austin Appleby, public domain)
with the seed 0x9747b28c, its sign bit cleared, modulo the number of partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.avro.buffers import binary_octets, binary_offsets

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_WORD: Final = 4


def partitions_of(keys: pa.BinaryArray, count: int) -> npt.NDArray[np.int64]:
    """Return the partition, of `count`, for each key (int64[n]); those without a key all go to partition 0.

    So where a message goes is known from what it is: rows of a table without a
    primary key keep their order, and nothing is random.
    """
    if count == 1 or not len(keys):
        return np.zeros(len(keys), np.int64)
    offsets = binary_offsets(keys).astype(np.int64)
    octets, lengths = binary_octets(keys), np.diff(offsets)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        content = octets[offsets[chosen][:, None] + np.arange(length)]
        hashes[chosen] = _murmur2(content)
    found = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    found[np.asarray(keys.is_null())] = 0
    return found


def _murmur2(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Hash the rows of uint8[n, length], all at once."""
    count, length = content.shape
    hashes = np.full(count, _SEED ^ np.uint32(length), np.uint32)
    whole = length // _WORD
    words = np.ascontiguousarray(content[:, : whole * _WORD]).view("<u4").reshape(count, whole)
    for column in range(whole):
        word = words[:, column].astype(np.uint32) * _M
        word ^= word >> np.uint32(24)
        hashes = hashes * _M ^ word * _M
    rest = content[:, whole * _WORD :].astype(np.uint32)
    if rest.shape[1]:
        for index in range(rest.shape[1]):
            hashes ^= rest[:, index] << np.uint32(8 * index)
        hashes *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes
