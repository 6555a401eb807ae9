"""The live workload as a sequence of steps: pure, and the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from penstock.demo.actions import Actions, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.demo.marketplace import Sizes
    from penstock.demo.sources.words import SqlWords


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One DDL statement, and what to tell the viewer about it."""

    title: str
    sql: str


Step: TypeAlias = Transaction | SchemaChange

_REPLY = "ALTER TABLE reviews: a nullable column more"
_WRITTEN_ON = "ALTER TABLE reviews: a column more, NOT NULL with a default"
_WIDER = "ALTER TABLE reviews: INT to BIGINT, VARCHAR(80) to VARCHAR(300)"
_BOOKINGS = "CREATE TABLE bookings"


def plan_steps(sizes: Sizes, changes_total: int, seed: int, words: SqlWords) -> Iterator[Step]:
    """Yield steps until they add up to `changes_total` row changes, on a marketplace that `fill` made.

    The four schema changes come after 20, 35, 50 and 65 % of the changes; rows
    written afterwards use what they brought.
    """
    actions = Actions(Random(seed), sizes, words)  # noqa: S311 - a repeatable sequence, not a secret
    waiting: list[tuple[int, SchemaChange, Callable[[], None]]] = [
        (changes_total * 20 // 100, SchemaChange(_REPLY, words.add_reply), lambda: actions.fill_review_column("reply")),
        (
            changes_total * 35 // 100,
            SchemaChange(_WRITTEN_ON, words.add_written_on),
            lambda: actions.fill_review_column("written_on"),
        ),
        (changes_total * 50 // 100, SchemaChange(_WIDER, words.widen), actions.use_wider_reviews),
        (changes_total * 65 // 100, SchemaChange(_BOOKINGS, words.create_bookings), actions.take_bookings),
    ]
    done = 0
    while done < changes_total:
        while waiting and done >= waiting[0][0]:
            _, schema_change, then = waiting.pop(0)
            yield schema_change
            then()
        transaction = actions.next_transaction()
        done += transaction.changes
        yield transaction
