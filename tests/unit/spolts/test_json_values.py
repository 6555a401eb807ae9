"""JSON that goes through user code: what it touched is written anew, and nothing else."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.spolts.json_values import WrittenFloat, is_same, parse_json, render_json
from penstock.spolts.testing import Harness, send

if TYPE_CHECKING:
    from penstock.spolts import Message

JSON = {"topic": "in", "format": "json"}
SAME = {"topic": "out", "schema": "same"}
NUMBERS = ("12345678901234567.89", "1e400", "-1.10", "1E5", "0.1000000000000000055511151231257827", "1.5", "-0.0")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_nobody_touched_is_written_as_it_was(number: str) -> None:
    content = f'{{"paid":1,"deep":[{{"total":{number}}}]}}'
    value = parse_json(content.encode())

    value["paid"] = 2

    assert render_json(value) == content.replace('"paid":1', '"paid":2')
    assert float(value["deep"][0]["total"]) == float(number)


def test_a_number_that_was_computed_is_a_plain_float() -> None:
    total = parse_json(b"12345678901234567.89")

    assert type(total * 1) is float
    assert (
        render_json({"total": total, "twice": total * 2})
        == '{"total":12345678901234567.89,"twice":2.4691357802469136e+16}'
    )
    assert pa.array([total, 1.5]).to_pylist() == [float(total), 1.5]


def test_a_number_keeps_its_text_in_copies_and_in_other_processes() -> None:
    for copied in (copy.deepcopy(parse_json(b"1.10")), pickle.loads(pickle.dumps(parse_json(b"1.10")))):  # noqa: S301
        assert isinstance(copied, WrittenFloat)
        assert copied.text == "1.10"


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": 1}, {"a": 1.0})]
)
def test_what_is_equal_to_python_alone_is_not_the_same(one: object, other: object) -> None:
    assert one == other
    assert is_same(one, copy.deepcopy(one))
    assert not is_same(one, other)


def test_what_has_another_length_or_other_keys_is_not_the_same() -> None:
    assert not is_same([1], [1, 2])
    assert not is_same({"a": 1}, {"a": 1, "b": 2})
    assert not is_same({"a": 1}, {"b": 1})
    assert is_same(parse_json(b"NaN"), parse_json(b"NaN"))
    assert not is_same(parse_json(b"1.10"), parse_json(b"1.100"))


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(_values)
def test_a_value_is_written_as_json_dumps_writes_it(value: object) -> None:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    with_text = {1: value, "é\n": (value, WrittenFloat("1.10"))}

    assert render_json(value) == plain
    assert render_json(with_text) == f'{{"1":{plain},"é\\n":[{plain},1.10]}}'


def test_what_json_has_not_is_refused() -> None:
    circle: list[object] = [WrittenFloat("1.10")]
    circle.append(circle)

    for value in (float("nan"), [WrittenFloat("1.10"), float("inf")], circle):
        with pytest.raises(ValueError, match=r"JSON compliant|holds itself"):
            render_json(value)
    with pytest.raises(TypeError, match="not JSON serializable"):
        render_json({"a": {1}})


def test_user_code_passes_on_what_it_did_not_touch_and_loses_no_change() -> None:
    def pay(message: Message) -> Message:
        message.value["paid"] = message.value["to"]
        return message

    given = [b'{"paid":1,"to":%s,"total":12345678901234567.89}' % to for to in (b"true", b"2", b"1.0", b"1")]
    result = Harness.of_function(pay, SAME, JSON).run([send("in", each) for each in given])

    assert not result.letters
    values = result.values("out")
    assert [repr(each["paid"]) for each in values] == ["True", "2", "1.0", "1"]
    assert {each["total"].text for each in values} == {"12345678901234567.89"}


def test_a_change_of_avro_that_python_calls_equal_is_written() -> None:
    def negated(message: Message) -> Message:
        message.value["degrees"] = -message.value["degrees"]
        return message

    result = Harness.of_function(negated, SAME, {"topic": "in", "format": "avro"}).run([send("in", {"degrees": 0.0})])

    assert repr(result.values("out")) == "[{'degrees': -0.0}]"
