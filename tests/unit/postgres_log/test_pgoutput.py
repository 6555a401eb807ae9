"""pgoutput's messages, one at a time."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.postgres.messages import (
    UNCHANGED,
    Began,
    Cells,
    Committed,
    Deleted,
    Inserted,
    Relation,
    RelationColumn,
    Truncated,
    Updated,
)
from penstock.core.postgres.network_reader import MalformedError
from penstock.core.postgres.pgoutput import decode_message

_OID = st.integers(1, 2**32 - 1)
_NAME = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)
_CELLS: st.SearchStrategy[Cells] = st.lists(
    st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=40)), max_size=8
).map(tuple)
_RELATION = st.builds(
    Relation,
    _OID,
    _NAME,
    _NAME,
    st.sampled_from("dnfi"),
    st.lists(st.builds(RelationColumn, _NAME, _OID, st.integers(-1, 2**31 - 1), st.booleans()), max_size=6).map(tuple),
)


@given(_OID, _CELLS)
def test_an_insert_decodes_to_what_was_encoded(oid: int, new: Cells) -> None:
    assert decode_message(encoding.encode_insert(oid, new)) == Inserted(oid, new)


@given(_OID, st.none() | _CELLS, _CELLS, st.booleans())
def test_an_update_decodes_to_what_was_encoded(oid: int, old: Cells | None, new: Cells, whole: bool) -> None:  # noqa: FBT001 - drawn
    decoded = decode_message(encoding.encode_update(oid, old, new, whole=whole))

    assert decoded == Updated(oid, old, whole and old is not None, new)


@given(_OID, _CELLS, st.booleans())
def test_a_delete_decodes_to_what_was_encoded(oid: int, old: Cells, whole: bool) -> None:  # noqa: FBT001 - drawn
    assert decode_message(encoding.encode_delete(oid, old, whole=whole)) == Deleted(oid, old, whole)


@given(_RELATION)
def test_a_relation_decodes_to_what_was_encoded(table: Relation) -> None:
    assert decode_message(encoding.encode_relation(table)) == table


@given(st.lists(_OID, max_size=5))
def test_a_truncate_decodes_to_its_tables(oids: list[int]) -> None:
    assert decode_message(encoding.encode_truncate(oids)) == Truncated(tuple(oids))


def test_transactions_begin_and_end_with_their_places() -> None:
    assert decode_message(encoding.encode_begin(5 << 32, xid=9, timestamp_us=-1)) == Began(5 << 32, -1, 9)
    assert decode_message(encoding.encode_commit(10, 20)) == Committed(10, 20, 1_000_000)


@given(_OID, _CELLS, st.data())
def test_a_message_that_is_cut_short_or_goes_on_is_refused(oid: int, new: Cells, data: st.DataObject) -> None:
    whole = encoding.encode_update(oid, new, new)
    cut = data.draw(st.integers(0, len(whole) - 1))

    for damaged in (whole[:cut], whole + b"\0"):
        with pytest.raises(MalformedError):
            decode_message(damaged)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_never_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        decode_message(data)
