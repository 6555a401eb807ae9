"""User code through the code that workers run: what it gets, what it gives, and what becomes of its failures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.core.avro.wire import frame
from penstock.core.errors import SpoltError, UsageError
from penstock.spolts import DeadLetter, DeadLetterError, Message, Output, spolt
from penstock.spolts.testing import Harness, Published, PutAside, create, delete, read, send, update

if TYPE_CHECKING:
    from collections.abc import Iterator


def _schema(*fields: pa.Field[Any]) -> pa.Schema:
    return pa.schema(fields)


ORDERS = """\
CREATE TABLE shop.orders (
  id BIGINT UNSIGNED PRIMARY KEY, total DECIMAL(10,2) NOT NULL, note VARCHAR(20), at DATETIME(6), took TIME(6)
)"""
OUT = _schema(pa.field("id", pa.uint64(), nullable=False), pa.field("total", pa.decimal128(10, 2)))
JSON = {"topic": "in", "format": "json"}
SAME = {"topic": "out", "schema": "same"}


def _order(number: int, total: str, **more: object) -> dict[str, object]:
    return {"id": number, "total": Decimal(total), **more}


@spolt(output=OUT)
def big(message: Message, above: int = 100) -> Iterator[Output]:
    if message.operation != "d" and message.row is not None and message.row["total"] > above:
        yield Output({"id": message.row["id"], "total": message.row["total"]})


class Counted:
    """Counts what it sees, and is made anew with each run."""

    def __init__(self, start: int) -> None:
        self.seen = start

    def __call__(self, message: Message) -> Message:
        self.seen += 1
        return message.with_value({"seen": self.seen})


def test_a_function_gets_typed_rows_and_gives_records_with_the_key_of_the_message() -> None:
    harness = Harness.of_function(big, tables=[ORDERS], options={"above": 200})

    result = harness.run(
        [
            create("shop.orders", _order(2**64 - 1, "250.00")),
            update("shop.orders", _order(2, "250.00"), _order(2, "150.00")),
            read("shop.orders", _order(3, "200.01")),
            delete("shop.orders", _order(2, "999.00")),
        ]
    )

    assert result.published == [
        Published("out", {"id": number}, {"id": number, "total": Decimal(total)})
        for number, total in ((2**64 - 1, "250.00"), (3, "200.01"))
    ]
    assert not result.letters


def test_a_message_says_what_happened_where_and_when() -> None:
    seen: list[Message] = []
    harness = Harness.of_function(lambda message: seen.append(message), to=SAME, tables=[ORDERS])  # noqa: PLW0108
    at = datetime(2024, 1, 1, 1, 2, 3, 4)  # noqa: DTZ001 - DATETIME has no zone

    harness.run([update("shop.orders", _order(1, "1.00", note="a"), _order(1, "2.00", at=at, took=timedelta(hours=1)))])

    (message,) = seen
    assert (message.operation, message.topic, message.partition, message.offset) == ("u", "shop.orders", 0, 0)
    assert message.timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert message.row is message.after
    assert message.difference() == {
        "total": (Decimal("1.00"), Decimal("2.00")),
        "note": ("a", None),
        "at": (None, at),
        "took": (None, 3_600_000_000),
    }


def test_what_is_no_change_has_no_rows_and_no_difference() -> None:
    message = Message("t", 0, 0, 0, None, {"op": "x", "before": None, "after": None})

    assert (message.operation, message.before, message.after, message.row, message.difference()) == (*[None] * 4, {})
    with pytest.raises(ValueError, match="no change"):
        message.with_rows(None, None)


def test_changes_of_a_source_that_writes_flat_json_have_their_rows(tmp_path: Path) -> None:
    (tmp_path / "flat_code.py").write_text(FLAT_CODE)
    (tmp_path / "p.yaml").write_text(FLAT_PIPELINE)
    harness = Harness.of_file(tmp_path / "p.yaml", "s", tables=[ORDERS])

    result = harness.run(
        [
            create("shop.orders", _order(2**63, "250.00")),
            update("shop.orders", _order(2, "1.00"), _order(2, "2.00", note="a")),
            delete("shop.orders", _order(3, "9.00")),
        ]
    )

    row = {"note": None, "at": None, "took": None}
    assert result.values("out") == [
        ["c", None, {"id": str(2**63), "total": "250.00", **row}, {}],
        ["u", {"id": 2, "total": "1.00", **row}, {"id": 2, "total": "2.00", **row, "note": "a"},
         {"total": ["1.00", "2.00"], "note": [None, "a"]}],
        ["d", {"id": 3, "total": "9.00", **row}, None, {}],
        [None, None, None, {}],
    ]  # fmt: skip
    assert [each.key for each in result.published] == [{"id": key} for key in (str(2**63), 2, 3, 3)]


FLAT_PIPELINE = """\
pipeline: p
sources: [{name: db, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"], format: json}]
spolts:
  - {name: s, function: "flat_code:told", from: "db.shop.*", to: {topic: out, schema: same}}
"""
FLAT_CODE = """\
import json
from penstock.spolts import Output

def told(message):
    assert message.row == (message.before if message.after is None else message.after)
    text = json.dumps([message.operation, message.before, message.after, message.difference()])
    return Output(text.encode())
"""


def test_rows_of_flat_json_lack_what_the_log_lacks_and_may_be_changed() -> None:
    seen: list[Message] = []

    def masked(message: Message) -> Message | None:
        seen.append(message)
        if message.operation is None:
            return None
        rows = [None if row is None else {**row, "note": "***"} for row in (message.before, message.after)]
        return message.with_rows(*rows)

    harness = Harness.of_function(
        masked, SAME, JSON, tables=["CREATE TABLE shop.t (id INT PRIMARY KEY, note TEXT, n INT)"]
    )

    result = harness.run(
        [
            update("shop.t", {"id": 1}, {"id": 1, "note": "a"}, before_lacks=["note", "n"], after_lacks=["n"]),
            read("shop.t", {"id": 2, "note": "b", "n": None}),
            delete("shop.t", {"id": 1}, lacks=["note", "n"]),
        ]
    )

    assert [(each.row, each.lacks, each.before, each.before_lacks) for each in seen[:3]] == [
        ({"id": 1, "note": "a"}, ("n",), {"id": 1}, ("note", "n")),
        ({"id": 2, "note": "b", "n": None}, (), None, ()),
        ({"id": 1}, ("note", "n"), {"id": 1}, ("note", "n")),
    ]
    assert seen[3].value is None
    told = [
        {name: value for name, value in each.items() if name in {"id", "note", "n", *LACKING}}
        for each in result.values("out")
    ]
    assert told == [
        {"__penstock_lacks": ["n"], "__penstock_before": {"id": 1, "note": "***"}, "__penstock_before_lacks": ["n"],
         "id": 1, "note": "***"},
        {"id": 2, "note": "***", "n": None},
        {"__penstock_lacks": ["n"], "id": 1, "note": "***"},
    ]  # fmt: skip
    assert all(next(iter(each)) == "__penstock_schema" for each in result.values("out"))
    with pytest.raises(ValueError, match="has a row after it"):
        seen[1].with_rows(None, None)


LACKING = {"__penstock_lacks", "__penstock_before", "__penstock_before_lacks"}


def test_a_batch_of_flat_json_has_the_columns_of_the_row() -> None:
    seen: list[pa.RecordBatch] = []

    @spolt(batches=True, output=pa.schema([("id", pa.int64())]))
    def ids(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch.select(["id"])

    harness = Harness.of_function(ids, "out", JSON, tables=["CREATE TABLE shop.t (id INT PRIMARY KEY, note TEXT)"])
    harness.run(
        [
            create("shop.t", {"id": 1, "note": "a"}),
            update("shop.t", {"id": 1, "note": "a"}, {"id": 1}, after_lacks=["note"]),
        ]
    )

    (batch,) = seen
    assert [name for name in batch.schema.names if not name.startswith("_")] == ["id", "note"]
    assert not any(name.startswith("__penstock") for name in batch.schema.names)
    assert batch["_op"].to_pylist() == ["c", "u"]
    assert batch["_before"].to_pylist() == [None, {"id": 1, "note": "a"}]
    assert batch["_lacks"].to_pylist() == [[], ["note"]]


def test_a_class_is_made_with_the_options_and_messages_may_be_changed() -> None:
    result = Harness.of_function(Counted, SAME, JSON, options={"start": 5}).run([send("in", {"a": 1}), send("in", {})])

    assert result.values("out") == [{"seen": 6}, {"seen": 7}]


def test_a_change_that_is_passed_on_with_other_rows_keeps_its_schema_and_its_origin() -> None:
    def masked(message: Message) -> Message:
        return message.with_rows(None, {**(message.after or {}), "note": "***"})

    def spoiled(message: Message) -> Message:
        message.value["after"]["note"] = "***"
        return message

    given = [create("shop.orders", _order(1, "5.00", note="secret", took=timedelta(seconds=1)))]
    (as_it_was,) = Harness.of_function(lambda message: message, SAME, tables=[ORDERS]).run(given).published

    for function in (masked, spoiled):
        (found,) = Harness.of_function(function, SAME, tables=[ORDERS]).run(given).published

        assert as_it_was.value["after"]["note"] == "secret"
        assert found.key == as_it_was.key == {"id": 1}
        assert found.value == {**as_it_was.value, "after": {**as_it_was.value["after"], "note": "***"}}


def test_outputs_go_to_the_topics_that_they_name_with_the_keys_that_they_want() -> None:
    @spolt(output={"a": pa.schema([("n", pa.int64())]), "b": pa.schema([("n", pa.int64())])})
    def both(message: Message) -> list[Output]:
        number = message.value["n"]
        return [Output({"n": number}, to="a"), Output({"n": number}, "text", "b"), Output(None, {"n": number}, "a")]

    to = [{"topic": "a", "key": "n"}, "b"]

    assert Harness.of_function(both, to, JSON).run([send("in", {"n": 7}, b"k")]).published == [
        Published("a", {"n": 7}, {"n": 7}),
        Published("b", b"text", {"n": 7}),
        Published("a", {"n": 7}, None),
    ]


def test_a_batch_function_gets_columns_and_its_columns_are_the_schema() -> None:
    seen: list[pa.RecordBatch] = []

    @spolt(batches=True)
    def cheap(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch.filter(pc.less(batch["total"], pa.scalar(100))).select(["_key", "_op", "id", "total"])

    result = Harness.of_function(cheap, tables=[ORDERS]).run(
        [create("shop.orders", _order(1, "99.00")), delete("shop.orders", _order(2, "1.00"))]
    )

    (batch,) = seen
    assert batch["_op"].to_pylist() == ["c", "d"]
    assert [before and before["id"] for before in batch["_before"].to_pylist()] == [None, 2]
    assert seen[0].schema.field("id").type == pa.uint64()
    assert seen[0].schema.field("took").type == pa.duration("us")
    assert [(each.key, each.value) for each in result.published] == [
        ({"id": number}, {"id": number, "total": Decimal(total)}) for number, total in ((1, "99.00"), (2, "1.00"))
    ]


def test_a_batch_of_json_or_of_any_avro_has_the_columns_of_its_records() -> None:
    @spolt(batches=True, output=pa.schema([("n", pa.int64())]))
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = [{"n": 2 * n, "_to": "b" if n > 1 else "a"} for n in _listed(batch, "n")]
        return pa.RecordBatch.from_pylist(rows)

    for given in (JSON, "in"):
        result = Harness.of_function(doubled, ["a", "b"], given).run([send("in", {"n": 1}), send("in", {"n": 2})])

        assert [(each.topic, each.key, each.value) for each in result.published] == [
            ("a", None, {"n": 2}),
            ("b", None, {"n": 4}),
        ]


@pytest.mark.parametrize("bad", [{0}, {99}, {17, 18, 63}, set(range(100))])
def test_of_a_batch_that_fails_only_the_messages_that_it_fails_on_are_put_aside(bad: set[int]) -> None:
    @spolt(batches=True)
    def picky(batch: pa.RecordBatch) -> pa.RecordBatch:
        if bad & set(batch["n"].to_pylist()):
            text = "no such number"
            raise ValueError(text)
        return batch.select(["n"])

    given = [send("in", {"n": number}) for number in range(100)]
    result = Harness.of_function(picky, "out", JSON, on_error="dead_letter").run(given)

    assert [value["n"] for value in result.values("out")] == [number for number in range(100) if number not in bad]
    assert [letter.index for letter in result.letters] == sorted(bad)
    with pytest.raises(SpoltError, match=f"failed on in/0 offset {min(bad)}: ValueError: no such number"):
        Harness.of_function(picky, "out", JSON).run(given)


def _failing(message: Message) -> Iterator[Output | DeadLetter]:
    number = message.value["n"]
    yield Output({"n": number})
    if number == 1:
        text = "this one"
        raise DeadLetterError(text)
    if number == 2:
        yield DeadLetter("and this one")
    if number == 3:
        raise KeyError(number)


def test_what_is_known_of_a_failure_is_in_the_hint() -> None:
    with pytest.raises(SpoltError, match="in/0 offset 0: there is no schema 9") as caught:
        Harness.of_function(_failing, SAME, "in").run([send("in", frame(9) + b"0")])

    assert caught.value.hint.startswith("encode with a schema that was registered, or set on_error: dead_letter; then")


def test_messages_that_code_declares_dead_are_put_aside_and_what_else_it_raises_stops_it() -> None:
    to = {"topic": "out", "schema": "same"}
    given = [send("in", {"n": number}) for number in range(5)]

    with pytest.raises(SpoltError, match=r"failed on in/0 offset 3: KeyError: 3 \(.*test_harness.py, line \d+\)"):
        Harness.of_function(_failing, to, JSON).run(given)
    result = Harness.of_function(_failing, to, JSON, on_error="dead_letter").run([*given, send("in", b"{")])

    assert result.values("out") == [{"n": 0}, {"n": 2}, {"n": 4}]
    assert result.letters[:2] == [PutAside(1, "this one"), PutAside(2, "and this one")]
    assert [letter.error[:18] for letter in result.letters[2:]] == [
        "KeyError: 3 (/" + _here()[1:5],
        "ValueError: its va",
    ]


def _listed(batch: pa.RecordBatch, column: str) -> list[Any]:
    return [row[column] for row in batch.to_pylist()]


def _here() -> str:
    return str(Path(__file__))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Output({"n": "text"}), "the value for out does not fit its schema"),
        (Output({"m": 1}), "more fields than the schema specifies"),
        (Output({"n": 1}, to="elsewhere"), "elsewhere is no output of this spolt; it has: out"),
        (Output({"n": 1}, key={"n": 1}), "the file names no `key` fields"),
        (Output(b"bytes"), "give a record, or say `schema: same`"),
        ({"n": 1}, "a spolt gives Output, Message or DeadLetter, or several, not dict"),
        (["text"], "a spolt gives Output, Message or DeadLetter, not str"),
    ],
)
def test_what_cannot_be_published_is_a_failure_of_the_message(given: object, told: str) -> None:
    @spolt(output=pa.schema([("n", pa.int64())]))
    def function(_: Message) -> object:
        return given

    with pytest.raises(SpoltError, match=told):
        Harness.of_function(function, "out", JSON).run([send("in", {})])


def test_code_is_found_beside_the_file_and_what_is_wrong_with_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "found_code.py").write_text("number = 5\ndef f(message):\n    return message\nclass C:\n    pass\n")
    (tmp_path / "broken_code.py").write_text("import nothing_of_that_name\n")
    text = """\
pipeline: p
sources: [{name: db, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}]
spolts:
  - {name: s, function: "FUNCTION", from: db.shop.orders, to: TO}
"""

    def harness(function: str, to: str = "{topic: out, schema: same}") -> Harness:
        (tmp_path / "p.yaml").write_text(text.replace("FUNCTION", function).replace("TO", to))
        return Harness.of_file(tmp_path / "p.yaml", "s", tables=[ORDERS])

    result = harness("found_code:f").run([create("shop.orders", _order(1, "1.00"))])
    assert [each.key for each in result.published] == [{"id": 1}]
    for function, to, told in (
        ("found_code:g", "{topic: out, schema: same}", "found_code:g is not there"),
        ("found_code:number", "{topic: out, schema: same}", "is a int, which cannot be called"),
        ("found_code:C", "{topic: out, schema: same}", "objects of found_code:C cannot be called"),
        ("found_code:f", "out", "nothing says which schema out has"),
        ("broken_code:f", "out", "does not import: ModuleNotFoundError"),
    ):
        with pytest.raises(UsageError, match=told):
            harness(function, to).run([])
