"""Rows of which keys and hashes are known, as columns: which differ, of millions, without a step of Python for each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.audit.queries import WORDS, Signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from penstock.core.audit.queries import Hashes, RowKey

HASH_BYTES: Final = 16
_AT_ONCE: Final = 10_000
_HALF: Final = np.dtype(">u8")
"""Half of a hash, whose order as a number is that of its bytes."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row that was not the same on both sides, in which partition, when it was first looked at."""

    key: RowKey
    partition: int | None
    source: Hashes
    target: Hashes


@dataclass(frozen=True, slots=True)
class Suspects:
    """Many of them: key columns, numbers of partitions as texts, and the hashes of both sides (`Hashes`)."""

    keys: tuple[pa.StringArray, ...]
    partitions: pa.StringArray
    source: pa.BinaryArray
    target: pa.BinaryArray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.partitions)

    def __iter__(self) -> Iterator[Suspect]:
        """One by one, of which only some are in memory at once."""
        for start in range(0, len(self), _AT_ONCE):
            some = self.between(start, start + _AT_ONCE)
            numbers = (None if each is None else int(each) for each in some.partitions.to_pylist())
            hashes = (some.source.to_pylist(), some.target.to_pylist())
            yield from starmap(Suspect, zip(some.row_keys(), numbers, *hashes, strict=True))

    def row_keys(self) -> list[RowKey]:
        """The keys, row by row."""
        return list(zip(*(column.to_pylist() for column in self.keys), strict=True))

    def keys_at(self, places: npt.NDArray[np.int64]) -> list[RowKey]:
        """The keys of some of them."""
        return list(zip(*(column.take(places).to_pylist() for column in self.keys), strict=True))

    def take(self, places: npt.NDArray[np.int64]) -> Suspects:
        """Some of them, in the order of `places`."""
        keys = tuple(column.take(places) for column in self.keys)
        return Suspects(keys, self.partitions.take(places), self.source.take(places), self.target.take(places))

    def first(self, count: int) -> Suspects:
        """So many of them, from the first on."""
        return self.between(0, count)

    def between(self, start: int, end: int) -> Suspects:
        """Those from one place to another."""
        return self.take(np.arange(start, min(end, len(self))))

    def seen_as(self, source: pa.BinaryArray, target: pa.BinaryArray) -> Suspects:
        """The same rows with other hashes."""
        return Suspects(self.keys, self.partitions, source, target)

    @classmethod
    def of(cls, listed: Iterable[Suspect]) -> Suspects:
        """Return what is listed one by one."""
        rows = list(listed)
        keys = zip(*(each.key for each in rows), strict=True)
        return cls(
            tuple(pa.array(column, pa.string()) for column in keys),
            pa.array([None if each.partition is None else str(each.partition) for each in rows], pa.string()),
            pa.array([each.source for each in rows], pa.binary()),
            pa.array([each.target for each in rows], pa.binary()),
        )

    @classmethod
    def of_keys(cls, keys: Iterable[RowKey]) -> Suspects:
        """Return rows of which nothing is known yet but their keys."""
        return cls.of(Suspect(key, None, b"", b"") for key in keys)

    @classmethod
    def joined(cls, parts: Iterable[Suspects]) -> Suspects:
        """Return all of several, which have the same key columns."""
        some = [part for part in parts if len(part)]
        if not some:
            return cls.of(())
        columns = zip(*((*part.keys, part.partitions, part.source, part.target) for part in some), strict=True)
        joined: Any = [pa.concat_arrays(arrays) for arrays in columns]
        *keys, partitions, source, target = joined
        return cls(tuple(keys), partitions, source, target)

    def in_order(self) -> Suspects:
        """Return them by their keys, as texts."""
        if not len(self):
            return self
        names = [str(place) for place in range(len(self.keys))]
        table = pa.Table.from_arrays(list(self.keys), names=names)
        places = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
        return self.take(np.asarray(places, np.int64))

    def counted(self) -> Mapping[int | None, RowCounts]:
        """How many of them, and how many rows of each side, are in which partition."""
        codes, texts = _encoded(self.partitions)
        numbers = [None if each is None else int(each) for each in texts.to_pylist()]
        keys = np.bincount(codes, minlength=len(numbers))
        here, there = (
            np.bincount(codes, weights=np.asarray(pc.binary_length(side)), minlength=len(numbers))
            for side in (self.source, self.target)
        )
        counts = zip(keys.tolist(), here.tolist(), there.tolist(), strict=True)
        return {
            number: RowCounts(keys, int(mine) // HASH_BYTES, int(theirs) // HASH_BYTES)
            for number, (keys, mine, theirs) in zip(numbers, counts, strict=True)
        }


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Suspects of a partition: how many keys, and rows of either side."""

    keys: int = 0
    source: int = 0
    target: int = 0

    def plus(self, other: RowCounts) -> RowCounts:
        """Both together."""
        return RowCounts(self.keys + other.keys, self.source + other.source, self.target + other.target)


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Rows of one side: key columns, hashes (uint64[n, 2], as their bytes stand), numbers of partitions as texts."""

    keys: tuple[pa.StringArray, ...]
    hashes: npt.NDArray[np.uint64]
    partitions: pa.StringArray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.hashes)

    @classmethod
    def read(cls, texts: pa.Table, key_columns: int) -> HashedRows:
        """Return what `rows_query` gave, for a key of so many columns."""
        if not texts.num_rows:
            nothing = pa.array([], pa.string())
            return cls((nothing,) * key_columns, np.empty((0, 2), _HALF), nothing)
        columns: Any = [pa.concat_arrays(column.chunks) for column in texts.columns]
        *keys, hashes, partitions = columns
        return cls(tuple(keys), _halves(hashes.to_pylist()), partitions)

    def signatures(self) -> dict[int | None, Signature]:
        """The signatures of their partitions, as `signature_query` has them but for their least and greatest keys."""
        codes, texts = _encoded(self.partitions)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(texts))
        words = np.ascontiguousarray(self.hashes).view(">u4").reshape(-1, WORDS)[order].astype(np.uint64)
        sums = np.add.reduceat(words, np.cumsum(counts) - counts, axis=0) if len(self) else words
        numbers = (None if each is None else int(each) for each in texts.to_pylist())
        found = zip(counts.tolist(), sums.tolist(), strict=True)
        return dict(zip(numbers, (Signature(count, tuple(each)) for count, each in found), strict=True))


def differing(mine: HashedRows, theirs: HashedRows) -> Suspects:
    """Return the rows that are not the same on both sides; keys may be there several times."""
    codes, count = _common_codes(mine.keys, theirs.keys)
    here, there = codes[: len(mine)], codes[len(mine) :]
    at_source, at_target = _places(here, count), _places(there, count)
    is_single = (np.bincount(here, minlength=count) <= 1) & (np.bincount(there, minlength=count) <= 1)
    in_both = is_single & (at_source >= 0) & (at_target >= 0)
    alike = np.flatnonzero(in_both)
    alike = alike[(mine.hashes[at_source[alike]] == theirs.hashes[at_target[alike]]).all(axis=1)]
    is_open = np.ones(count, np.bool_)
    is_open[alike] = False
    wanted = np.flatnonzero(is_open)
    first = np.where(at_source >= 0, at_source, at_target + len(mine))[wanted]
    columns = zip((*mine.keys, mine.partitions), (*theirs.keys, theirs.partitions), strict=True)
    taken: Any = [pa.concat_arrays(both).take(first) for both in columns]
    *keys, partitions = taken
    found = Suspects(
        tuple(keys), partitions, _packed(here, mine.hashes, wanted, count), _packed(there, theirs.hashes, wanted, count)
    )
    # Of keys that are there several times, only now it shows whether the rows are the same.
    is_other = np.asarray(pc.not_equal(found.source, found.target))
    return found if is_other.all() else found.take(np.flatnonzero(is_other))


def sums_of(hashes: pa.BinaryArray) -> Signature:
    """Return what `sums_query` would give of rows with these hashes."""
    joined = b"".join(each or b"" for each in hashes.to_pylist())
    numbers = np.frombuffer(joined, ">u4").reshape(-1, WORDS)
    return Signature(len(numbers), tuple(numbers.sum(axis=0, dtype=np.uint64).tolist()))


def hashes_of(texts: Iterable[str]) -> Hashes:
    """Return the hashes of the rows with one key, each of which is 32 hexadecimal digits."""
    return b"".join(sorted(map(bytes.fromhex, texts)))


def _halves(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    found = bytes.fromhex("".join(texts))
    if len(found) != len(texts) * HASH_BYTES:
        message = f"{len(texts)} hashes of rows have {len(found)} bytes"
        raise ValueError(message)
    return np.frombuffer(found, _HALF).reshape(-1, 2)


def _encoded(texts: pa.StringArray) -> tuple[npt.NDArray[np.int64], pa.StringArray]:
    """Return for each text its place in the list of those that there are, and that list."""
    found = texts.dictionary_encode(null_encoding="encode")
    return np.asarray(found.indices, np.int64), cast("pa.StringArray", found.dictionary)


def _common_codes(
    mine: Sequence[pa.StringArray], theirs: Sequence[pa.StringArray]
) -> tuple[npt.NDArray[np.int64], int]:
    """Return a number for each key, the same for equal ones, those of `theirs` last; and how many keys there are."""
    codes, count = np.zeros(0, np.int64), 1
    for place, both in enumerate(zip(mine, theirs, strict=True)):
        column, texts = _encoded(pa.concat_arrays(both))
        if not place:
            codes, count = column, len(texts)
        else:
            found, codes = np.unique(codes * len(texts) + column, return_inverse=True)
            count = len(found)
    return codes, count


def _places(codes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return where each code is, -1 for nowhere."""
    places = np.full(count, -1, np.int64)
    places[codes] = np.arange(len(codes))
    return places


def _packed(
    codes: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64], wanted: npt.NDArray[np.int64], count: int
) -> pa.BinaryArray:
    """Return the hashes of the rows with each of the codes `wanted`, which are in order: sorted, side by side."""
    is_wanted = np.zeros(count, np.bool_)
    is_wanted[wanted] = True
    rows = np.flatnonzero(is_wanted[codes])
    order = rows[np.lexsort((hashes[rows, 1], hashes[rows, 0], codes[rows]))]
    lengths = np.bincount(codes[rows], minlength=count)[wanted] * HASH_BYTES
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers: list[Any] = [None, pa.py_buffer(offsets.data), pa.py_buffer(hashes[order].tobytes())]
    return cast("pa.BinaryArray", pa.BinaryArray.from_buffers(pa.binary(), len(wanted), buffers))
