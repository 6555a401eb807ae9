"""Dead letters hold what they are made of, and records of spolts what was written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.spolts.raw import Letter, RawMessage
from penstock.links.spolts.record import ReplayRecord, SpoltRecord

_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_headers = st.lists(st.tuples(_texts.filter(lambda name: not name.startswith("penstock.")), st.binary(max_size=9)))
_messages = st.builds(
    RawMessage,
    topic=st.from_regex(r"[a-z._-]{1,20}", fullmatch=True),
    partition=st.integers(0, 100),
    offset=st.integers(0, 2**62),
    timestamp_ms=st.integers(-1, 2**42),
    key=st.none() | st.binary(max_size=30),
    value=st.none() | st.binary(max_size=30),
    headers=_headers.map(tuple),
)
_letters = st.builds(Letter, _messages, _texts, _texts, st.integers(0, 2**42))


@given(_letters, st.integers(0, 2**62))
def test_a_dead_letter_says_everything_of_its_message(letter: Letter, offset: int) -> None:
    message = letter.message
    stored = RawMessage("penstock.p.deadletters.s", 0, offset, 1, message.key, message.value, letter.headers())

    assert Letter.read(stored) == letter


def test_an_error_that_is_no_text_is_told_all_the_same_and_bounded() -> None:
    message = RawMessage("t", 0, 0, 0, None, b"")
    letter = Letter(message, "s", "\ud800" + "x" * 10_000, 0)

    (error,) = [content for name, content in letter.headers() if name == "penstock.error"]

    assert error.startswith(b"\\ud800xxx")
    assert len(error) < 4_100


@pytest.mark.parametrize("spoiled", ["penstock.origin", "penstock.spolt", "penstock.error", "penstock.failed_at_ms"])
def test_what_is_no_dead_letter_is_told_with_its_place(spoiled: str) -> None:
    headers = Letter(RawMessage("t", 0, 0, 0, None, b""), "s", "e", 0).headers()
    left = tuple(header for header in headers if header[0] != spoiled)

    with pytest.raises(ValueError, match="letters/0 offset 7 is no dead letter of Penstock's"):
        Letter.read(RawMessage("letters", 0, 7, 0, None, b"", left))


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=8))
def test_a_replay_knows_exactly_the_letters_that_it_was_told_of(rounds: list[list[int]]) -> None:
    record = ReplayRecord()
    for offsets in rounds:
        record = ReplayRecord.from_mapping(json.loads(json.dumps(record.with_offsets(offsets).to_mapping())))

    told = {offset for offsets in rounds for offset in offsets}
    assert {offset for offset in range(70) if record.has(offset)} == told
    assert all(end < start for (_, end), (start, _) in zip(record.replayed, record.replayed[1:], strict=False))


@given(
    st.dictionaries(st.tuples(_texts, st.integers(0, 9)), st.integers(0, 2**62)),
    st.dictionaries(_texts, _texts),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)
def test_a_position_record_is_read_back_as_it_was_written(
    places: dict[tuple[str, int], int], ids: dict[str, str], epoch: int, letters: int
) -> None:
    record = SpoltRecord(places, ids, epoch, letters)

    assert SpoltRecord.from_mapping(json.loads(json.dumps(record.to_mapping()))) == record
