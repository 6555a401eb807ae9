"""Prometheus' text format: whatever a label says, it is read back as it was."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.web.exposition import Family, render_metrics

LINE = re.compile(r'^(\w+)\{pipeline="((?:[^"\\\n]|\\.)*)",table="((?:[^"\\\n]|\\.)*)"\} (\S+)$')
UNESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


def unescape(text: str) -> str:
    return re.sub(r'\\[\\n"]', lambda found: UNESCAPED[found[0]], text)


@given(
    pipeline=st.text(st.characters(codec="utf-8")),
    table=st.text(st.characters(codec="utf-8")) | st.text('\\"\nn{},= '),
    value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**53),
)
def test_labels_and_values_are_read_back_as_they_were(pipeline: str, table: str, value: float) -> None:
    family = Family("penstock_table_rows_total", "counter", "Rows.\nOf a \\ table.")
    family.add(value, table=table)

    head, kind, line, rest = render_metrics([family], {"pipeline": pipeline}).split("\n")

    assert head == "# HELP penstock_table_rows_total Rows.\\nOf a \\\\ table."
    assert kind == "# TYPE penstock_table_rows_total counter"
    found = LINE.match(line)
    assert found is not None
    assert (found[1], unescape(found[2]), unescape(found[3])) == ("penstock_table_rows_total", pipeline, table)
    assert float(found[4]) == value
    assert rest == ""


def test_what_is_not_known_has_no_value() -> None:
    family = Family("penstock_link_lag_seconds", "gauge", "Lag.")
    family.add(None, link="a")

    assert "link=" not in render_metrics([family], {})


def test_what_has_no_utf_8_is_shown_all_the_same() -> None:
    family = Family("penstock_link_up", "gauge", "Up.")
    family.add(1, link="\udc80")

    assert 'link="\\udc80"' in render_metrics([family], {}).encode().decode()
