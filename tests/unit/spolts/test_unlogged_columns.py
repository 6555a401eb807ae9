"""User code sees which columns the source's log has no value of, and takes none of them for NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.spolts import Message, spolt
from penstock.spolts.testing import Harness, create, delete, update

if TYPE_CHECKING:
    import pyarrow as pa

SAME = {"topic": "out", "schema": "same"}
DOCS = "CREATE TABLE shop.docs (id INT PRIMARY KEY, title VARCHAR(20), body LONGTEXT, `a b` INT)"
ALL = ["title", "body", "a b"]


def test_columns_that_the_log_lacks_are_not_in_rows_and_are_named() -> None:
    seen: list[Message] = []
    harness = Harness.of_function(lambda message: seen.append(message), to=SAME, tables=[DOCS])  # noqa: PLW0108

    harness.run(
        [
            update("shop.docs", {"id": 1}, {"id": 1, "title": "b"}, before_lacks=ALL, after_lacks=["body", "a b"]),
            update("shop.docs", {"id": 1, "title": "a"}, {"id": 1, "title": "b", "body": None, "a b": 1},
                   before_lacks=["body", "a b"]),
            delete("shop.docs", {"id": 1}, lacks=ALL),
            create("shop.docs", {"id": 1, "title": None}, lacks=["body"]),
        ]
    )  # fmt: skip

    assert [(message.before, message.before_lacks) for message in seen] == [
        ({"id": 1}, ("title", "body", "a_x20_b")),
        ({"id": 1, "title": "a"}, ("body", "a_x20_b")),
        ({"id": 1}, ("title", "body", "a_x20_b")),
        (None, ()),
    ]
    assert [(message.row, message.lacks) for message in seen] == [
        ({"id": 1, "title": "b"}, ("body", "a_x20_b")),
        ({"id": 1, "title": "b", "body": None, "a_x20_b": 1}, ()),
        ({"id": 1}, ("title", "body", "a_x20_b")),
        ({"id": 1, "title": None, "a_x20_b": None}, ("body",)),
    ]
    with pytest.raises(ValueError, match=r"no title of the row before it\. PostgreSQL logs it with .* FULL"):
        seen[0].difference()


def test_what_an_update_left_as_it_was_is_no_difference() -> None:
    seen: list[Message] = []
    harness = Harness.of_function(lambda message: seen.append(message), to=SAME, tables=[DOCS])  # noqa: PLW0108

    harness.run([
        update("shop.docs", {"id": 1, "title": "a", "a b": 1}, {"id": 1, "title": "b", "a b": 1},
               before_lacks=["body"], after_lacks=["body"]),
        update("shop.docs", {"id": 1, "title": "a", "body": "c"}, {"id": 1, "title": "b", "a b": 1},
               after_lacks=["body"]),
    ])  # fmt: skip

    assert [message.difference() for message in seen] == [
        {"title": ("a", "b")},
        {"title": ("a", "b"), "a_x20_b": (None, 1)},
    ]


def test_rows_that_are_given_back_lack_what_they_lacked_unless_they_have_it() -> None:
    def through(message: Message) -> Message:
        rows = [None if row is None else {**row, "title": "new"} for row in (message.before, message.after)]
        return message.with_rows(*rows)

    harness = Harness.of_function(through, to=SAME, tables=[DOCS])

    result = harness.run(
        [
            update("shop.docs", {"id": 1}, {"id": 1, "title": "b"}, before_lacks=ALL, after_lacks=["a b", "body"]),
            delete("shop.docs", {"id": 1}, lacks=["title"]),
        ]
    )

    names = ("before", "before_lacks", "after", "after_lacks")
    row = {"id": 1, "title": "new", "body": None, "a_x20_b": None}
    assert [[value[name] for name in names] for value in result.values("out")] == [
        [row, '["body", "a b"]', row, '["a b", "body"]'],
        [row, None, None, None],
    ]


def test_batches_tell_which_columns_the_log_lacks() -> None:
    seen: list[dict[str, object]] = []

    @spolt(batches=True)
    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(batch.select(["_lacks", "_before_lacks", "title", "body"]).to_pylist())
        return batch.select(["id"]).slice(0, 0)

    Harness.of_function(look, tables=[DOCS]).run(
        [
            update("shop.docs", {"id": 1}, {"id": 1, "title": "b"}, before_lacks=ALL, after_lacks=["body"]),
            create("shop.docs", {"id": 1, "title": "c"}),
            delete("shop.docs", {"id": 1}, lacks=ALL),
        ]
    )

    assert seen == [
        {"_lacks": ["body"], "_before_lacks": ALL, "title": "b", "body": None},
        {"_lacks": [], "_before_lacks": [], "title": "c", "body": None},
        {"_lacks": ALL, "_before_lacks": ALL, "title": None, "body": None},
    ]
