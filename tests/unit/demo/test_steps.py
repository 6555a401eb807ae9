"""The workload's sequence of steps."""

from __future__ import annotations

from itertools import pairwise

from penstock.demo.actions import Transaction
from penstock.demo.marketplace import plan_sizes
from penstock.demo.sources.mariadb import WORDS
from penstock.demo.steps import SchemaChange, Step, plan_steps

_SIZES = plan_sizes(2_000)


def test_the_same_seed_gives_the_same_steps() -> None:
    assert list(plan_steps(_SIZES, 3_000, seed=1, words=WORDS)) == list(plan_steps(_SIZES, 3_000, seed=1, words=WORDS))
    assert list(plan_steps(_SIZES, 3_000, seed=1, words=WORDS)) != list(plan_steps(_SIZES, 3_000, seed=2, words=WORDS))


def test_the_changes_add_up_to_what_was_asked_for() -> None:
    steps = list(plan_steps(_SIZES, 3_000, seed=1, words=WORDS))

    assert 3_000 <= _changes(steps) < 3_000 + 200


def test_schema_changes_come_at_their_share_of_the_run() -> None:
    steps = list(plan_steps(_SIZES, 10_000, seed=1, words=WORDS))

    shares = [_changes(steps[:i]) / 10_000 for i, step in enumerate(steps) if isinstance(step, SchemaChange)]

    assert [round(share, 1) for share in shares] == [0.2, 0.4, 0.5, 0.7]
    assert all(before < after for before, after in pairwise(shares))


def test_every_kind_of_change_is_there() -> None:
    written = " ".join(
        statement.sql
        for step in plan_steps(_SIZES, 10_000, seed=1, words=WORDS)
        if isinstance(step, Transaction)
        for statement in step.statements
    )

    for kind in (
        "INSERT INTO shop.bookings",
        "UPDATE shop.bookings",
        "DELETE FROM shop.bookings",
        "UPDATE shop.users SET id =",
        "UPDATE shop.ad_packages SET package_code =",
        "DELETE FROM shop.ad_packages",
        "DELETE FROM shop.reviews",
        "UPDATE shop.audit_log",
        "DELETE FROM shop.audit_log",
    ):
        assert kind in written


def test_columns_are_written_to_only_once_they_are_there() -> None:
    columns = ""
    for step in plan_steps(_SIZES, 5_000, seed=1, words=WORDS):
        match step:
            case SchemaChange():
                columns += step.sql
            case Transaction():
                inserts = [s.sql for s in step.statements if s.sql.startswith("INSERT INTO shop.reviews")]
                assert all(("reply" in sql) == ("reply" in columns) for sql in inserts)
                assert all(("written_on" in sql) == ("written_on" in columns) for sql in inserts)
                assert "bookings" in columns or all(s.table != "bookings" for s in step.statements)


def test_sampled_reviews_are_never_deleted() -> None:
    sampled: set[int] = set()
    deleted: set[object] = set()
    for step in plan_steps(_SIZES, 20_000, seed=4, words=WORDS):
        if isinstance(step, Transaction):
            sampled |= {step.sample.key} if step.sample else set()
            for statement in step.statements:
                if statement.sql.startswith("DELETE FROM shop.reviews"):
                    ids = statement.parameters[0][0]
                    assert isinstance(ids, tuple)
                    assert not deleted & set(ids)
                    deleted |= set(ids)

    assert sampled
    assert deleted
    assert not sampled & deleted


def _changes(steps: list[Step]) -> int:
    return sum(step.changes for step in steps if isinstance(step, Transaction))
