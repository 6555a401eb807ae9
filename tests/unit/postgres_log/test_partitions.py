"""Partitions that came and went, told by a number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.core.postgres.partitions import (
    Partition,
    files_number,
    have_changed,
    partitions_number,
    were_rewritten,
    without_old_rows,
)

if TYPE_CHECKING:
    from random import Random

_OIDS = st.integers(1, 2**32 - 1)
_XIDS = st.integers(3, 2**32 - 1)
_partitions = st.builds(Partition, _OIDS, _XIDS, st.booleans(), _OIDS, _XIDS)
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


@given(_tables, _partitions, st.randoms())
def test_files_are_as_they_were_in_whatever_order_and_beside_partitions_that_are_made(
    partitions: list[Partition], made: Partition, order: Random
) -> None:
    assume(all(each.oid < made.oid for each in partitions))
    number = files_number(partitions)
    order.shuffle(partitions)

    assert 0 < number < 2**63
    assert not were_rewritten(number, partitions)
    assert not were_rewritten(number, [*partitions, replace(made, file=made.oid)])


@given(_tables.filter(bool), _OIDS, st.data())
def test_a_partition_with_another_file_is_told_whether_it_was_there_or_was_made_since(
    partitions: list[Partition], file: int, data: st.DataObject
) -> None:
    emptied = data.draw(st.sampled_from(partitions))
    assume(file not in {emptied.file, emptied.oid})
    rest = [each for each in partitions if each != emptied]

    assert were_rewritten(files_number(partitions), [*rest, replace(emptied, file=file)])
    assume(all(each.oid < emptied.oid for each in rest))
    assert were_rewritten(files_number(rest), [*rest, replace(emptied, file=file)])


@given(_tables.filter(bool), _XIDS, st.data())
def test_files_of_a_truncate_of_the_whole_table_are_known_but_of_those_that_somebody_altered_since(
    partitions: list[Partition], xid: int, data: st.DataObject
) -> None:
    emptied = [replace(each, altered_by=xid) for each in partitions]
    other = data.draw(st.sampled_from(emptied))
    rest = [each for each in emptied if each != other]
    altered, made = replace(other, altered_by=xid ^ 1, file=other.oid + 1), replace(other, altered_by=xid ^ 1)

    assert not were_rewritten(files_number(emptied, xid), emptied)
    assert were_rewritten(files_number([*rest, altered], xid), [*rest, altered])
    made = replace(made, file=made.oid)
    assert not were_rewritten(files_number([*rest, made], xid), [*rest, made])


@pytest.mark.parametrize(
    ("key", "is_whole", "leaf", "is_known"),
    [
        (("id",), False, {"identity": ("id",)}, True),
        (("id",), False, {"identity": ("day", "id")}, True),
        (("id",), False, {"is_logged_whole": True}, True),
        # PostgreSQL refuses to change its rows, or it has none of its own.
        (("id",), False, {}, True),
        (("id",), False, {"identity": ("ref",)}, False),
        (("id",), True, {"identity": ("id",)}, True),
        (("id",), True, {"identity": ("ref",)}, False),
        ((), True, {"is_logged_whole": True}, True),
        ((), True, {}, True),
        ((), True, {"identity": ("id",)}, False),
        ((), False, {"is_logged_whole": True}, False),
        ((), False, {"identity": ("id",)}, False),
        ((), False, {}, True),
    ],
)
def test_a_partition_must_log_the_key_of_its_table_or_whole_rows_where_there_is_none(
    key: tuple[str, ...],
    is_whole: bool,  # noqa: FBT001 - a parameter
    leaf: dict[str, Any],
    is_known: bool,  # noqa: FBT001 - a parameter
) -> None:
    lacking = without_old_rows(key, is_whole=is_whole, partitions=[Partition(17, 700, is_made_as_one=True, **leaf)])

    assert (not lacking) == is_known
