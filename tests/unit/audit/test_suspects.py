"""Rows as columns: which of them differ, what they sum to, and what is left of them once some are taken out."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from penstock.core.audit.queries import Signature
from penstock.core.audit.suspects import HashedRows, RowCounts, Suspect, Suspects, differing, sums_of
from penstock.core.audit.text_tables import table_of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.audit.queries import RowKey

Row = tuple[tuple[str | None, ...], str]
"""A key, and what is hashed."""


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_differ_are_those_whose_hashes_are_not_the_same_however_often_a_key_is_there(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    width = rng.choice([1, 2])
    values = [None, "", "a", "A", "é", "~", *map(str, range(rng.choice([3, 300])))]
    rows = [(tuple(rng.choice(values) for _ in range(width)), str(rng.randrange(3))) for _ in range(rng.randrange(200))]
    others = [(key, rng.choice([text, text, text, "x"])) for key, text in rows if rng.random() < 0.9]
    rng.shuffle(others)

    found = differing(_read(rows, width), _read(others, width))

    mine, theirs = _by_key(rows), _by_key(others)
    expected = {key for key in {*mine, *theirs} if mine[key] != theirs[key]}
    assert {each.key: (each.source, each.target) for each in found} == {
        key: (b"".join(mine[key]), b"".join(theirs[key])) for key in expected
    }
    assert len(found) == len(expected)


def test_what_travelled_has_the_signatures_that_a_database_computes() -> None:
    rows = [((str(number),), str(number * number)) for number in range(50)]

    found = _read(rows, 1).signatures()

    assert found == {partition: _signature(rows[partition * 10 : partition * 10 + 10]) for partition in range(5)}
    assert sums_of(Suspects.of(Suspect(key, 0, _hash(text), b"") for key, text in rows).source) == _signature(rows)


def test_suspects_are_counted_by_partition_with_the_rows_of_both_sides() -> None:
    many = Suspects.of(
        [Suspect(("1",), 4, b"a" * 32, b""), Suspect(("2",), 4, b"", b"b" * 16), Suspect(("3",), None, b"", b"")]
    )

    assert many.counted() == {4: RowCounts(2, 2, 1), None: RowCounts(1)}
    assert [each.key for each in many.between(1, 9)] == [("2",), ("3",)]
    assert list(Suspects.joined([many.first(1), Suspects.of(()), many.between(1, 3)])) == list(many)


def _read(rows: Sequence[Row], width: int) -> HashedRows:
    listed = [
        (*key, _hash(text).hex(), None if key[0] is None else str(place // 10))
        for place, (key, text) in enumerate(rows)
    ]
    return HashedRows.read(table_of_rows(listed), width)


def _by_key(rows: Sequence[Row]) -> Mapping[RowKey, list[bytes]]:
    found: dict[RowKey, list[bytes]] = defaultdict(list)
    for key, text in rows:
        found[key] = sorted([*found[key], _hash(text)])
    return found


def _signature(rows: Sequence[Row]) -> Signature:
    words = [[int(_hash(text).hex()[at : at + 8], 16) for at in range(0, 32, 8)] for _, text in rows]
    return Signature(len(rows), tuple(map(sum, zip(*words, strict=True))))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]
