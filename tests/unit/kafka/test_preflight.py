"""What is said of a cluster that may lose what it has acknowledged."""

from __future__ import annotations

import pytest

from penstock.adapters.kafka.preflight import Durability, judge, judge_size


@pytest.mark.parametrize(("copies", "in_sync_min"), [(3, 2), (2, 2), (5, 3)])
def test_several_copies_of_which_a_write_waits_for_two_are_fine(copies: int, in_sync_min: int) -> None:
    assert judge(Durability("topic a", copies, in_sync_min)) is None


@pytest.mark.parametrize(
    ("copies", "in_sync_min", "level", "words"),
    [
        (1, 1, "warning", "has one copy"),
        (3, 1, "warning", "min.insync.replicas=1"),
        (1, 2, "error", "nothing can be written"),
        (2, 3, "error", "nothing can be written"),
    ],
)
def test_what_is_weak_is_told_with_its_remedy(copies: int, in_sync_min: int, level: str, words: str) -> None:
    weakness = judge(Durability("topic a", copies, in_sync_min))

    assert weakness is not None
    assert weakness.level == level
    assert words in weakness.message
    assert weakness.hint


def test_a_limit_of_a_topics_size_is_told_with_what_lifts_it() -> None:
    limited = judge_size(Durability("topic shop.orders", 3, 2, 1 << 30))

    assert judge_size(Durability("topic shop.orders", 3, 2)) is None
    assert limited is not None
    assert limited.level == "warning"
    assert "retention.bytes=1073741824" in limited.message
    assert "--entity-name shop.orders --add-config retention.bytes=-1" in limited.hint
