"""A report is one JSON object of a fixed shape, a table and a picture."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from penstock.bench.bench import Bench
from penstock.bench.figure import Figure, Series
from penstock.bench.machine import describe_machine
from penstock.bench.picture import render_picture
from penstock.bench.report import Report
from penstock.bench.table import print_report
from penstock.core.errors import UsageError

_CPU = Figure("reading", "CPU seconds", "less", 2.0, "somebody", 20.0, target=8)
_SPEED = Figure("speed", "rows per second", "more", 90.0, "somebody", 45.0, target=3)
_ALONE = Figure("p50", "ms", "less", 12.0, target=30, target_of="value")
_MISSING = Figure("reading", "CPU seconds", "less", 2.0, "nobody", target=8, note="nobody is not installed")
_REPORT = Report(
    "capture", {"cores": 2, "processor": "<fast> & small"}, {"python": "3.11"}, {"rows": 10}, [_CPU, _SPEED, _MISSING]
)


def test_json_has_the_keys_that_were_promised() -> None:
    report = json.loads(_REPORT.to_json())

    assert {"bench", "machine", "versions", "figures"} <= set(report)
    promised = {"name", "value", "unit", "peer", "peer_value", "ratio", "target", "ok"}
    assert all(promised <= set(figure) for figure in report["figures"])


def test_a_ratio_says_how_many_times_better_we_are() -> None:
    assert (_CPU.ratio, _SPEED.ratio, _ALONE.ratio) == (10.0, 2.0, None)


@pytest.mark.parametrize(
    ("figure", "ok"),
    [
        (_CPU, True),
        (_SPEED, False),
        (_ALONE, True),
        (replace(_ALONE, value=31.0), False),
        (replace(_SPEED, target=80, target_of="value"), True),
        (replace(_SPEED, target=100, target_of="value"), False),
        (_MISSING, None),
        (replace(_ALONE, value=None), None),
        (replace(_CPU, target=None), None),
    ],
)
def test_a_target_is_met_missed_or_cannot_be_judged(figure: Figure, ok: bool | None) -> None:  # noqa: FBT001
    assert figure.ok is ok


def test_a_figure_without_its_peer_says_why() -> None:
    mapping = _MISSING.to_mapping()

    assert (mapping["peer_value"], mapping["ratio"], mapping["ok"]) == (None, None, None)
    assert mapping["note"] == "nobody is not installed"


def test_figures_are_rounded_to_what_a_run_can_tell() -> None:
    assert replace(_CPU, value=1.234567).to_mapping()["value"] == 1.235


def test_the_table_shows_every_figure_and_its_note() -> None:
    printed = io.StringIO()

    print_report(Console(file=printed, width=200), _REPORT)

    text = printed.getvalue()
    assert "reading" in text
    assert ">= 8x" in text
    assert "nobody is not installed" in text


def test_the_picture_is_xml_with_two_bars_for_each_figure_that_has_a_peer() -> None:
    root = ET.fromstring(render_picture(_REPORT))  # noqa: S314 - we wrote it ourselves

    bars = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("width") != "100%"]
    assert len(bars) == 4
    assert float(bars[0].attrib["width"]) * 10 == pytest.approx(float(bars[1].attrib["width"]))


def test_the_picture_has_a_line_for_each_series_that_ends_at_the_floor_when_nothing_is_behind() -> None:
    series = (Series("ours", ((0.0, 100.0), (5.0, 0.0))), Series("somebody", ((0.0, 50.0), (10.0, 0.0))))
    report = replace(_REPORT, figures=[replace(_CPU, series=series)])

    root = ET.fromstring(render_picture(report))  # noqa: S314 - we wrote it ourselves

    lines = [line.attrib["points"].split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    places = [[tuple(map(float, point.split(","))) for point in line] for line in lines]
    (ours_first, ours_last), (other_first, other_last) = places
    assert ours_first[1] < other_first[1] < ours_last[1] == other_last[1]
    assert ours_first[0] == other_first[0] < ours_last[0] < other_last[0]
    assert json.loads(report.to_json())["figures"][0]["series"]["ours"] == [[0, 100], [5, 0]]


def test_the_machine_is_described() -> None:
    machine = describe_machine()

    assert machine["processor"]
    assert float(machine["cores"]) >= 1


def test_an_unknown_part_of_a_bench_is_refused_with_the_known_ones() -> None:
    bench = Bench("any", {"one": lambda _: [], "two": lambda _: []}, lambda _: {})

    assert bench.choose([]) == ["one", "two"]
    assert bench.choose(["two"]) == ["two"]
    with pytest.raises(UsageError, match="three") as refused:
        bench.choose(["two", "three"])
    assert "one, two" in refused.value.hint
