"""Partitions that came and went, told by a number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.core.postgres.partitions import Partition, have_changed, partitions_number

if TYPE_CHECKING:
    from random import Random

_OIDS = st.integers(1, 2**32 - 1)
_partitions = st.builds(Partition, _OIDS, st.integers(3, 2**32 - 1), st.booleans())
_tables = st.lists(_partitions, max_size=8, unique_by=lambda each: each.oid)


@given(_tables, st.randoms())
def test_partitions_are_as_they_were_in_whatever_order(partitions: list[Partition], order: Random) -> None:
    number = partitions_number(partitions)
    order.shuffle(partitions)

    assert 0 < number < 2**63
    assert not have_changed(number, partitions)


@given(_tables, _partitions)
def test_a_partition_that_is_made_as_one_later_is_no_change(partitions: list[Partition], made: Partition) -> None:
    assume(all(each.oid < made.oid for each in partitions))

    assert not have_changed(partitions_number(partitions), [*partitions, replace(made, is_made_as_one=True)])


@given(_tables, _partitions)
def test_one_that_is_attached_is_a_change(partitions: list[Partition], other: Partition) -> None:
    assume(all(each.oid != other.oid for each in partitions))

    assert have_changed(partitions_number(partitions), [*partitions, replace(other, is_made_as_one=False)])


@given(_tables.filter(bool), st.data())
def test_one_that_went_is_a_change_and_so_is_one_that_went_and_came_back(
    partitions: list[Partition], data: st.DataObject
) -> None:
    number, gone = partitions_number(partitions), data.draw(st.sampled_from(partitions))
    rest = [each for each in partitions if each != gone]

    assert have_changed(number, rest)
    back = replace(gone, attached_by=gone.attached_by + 1, is_made_as_one=False)
    assert have_changed(number, [*rest, back])
