"""A report as an SVG: two bars for every figure with a peer, and a chart for every figure that has series.

SVG 1.1, W3C; plain shapes and text, so that it shows on any page, light or dark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from penstock.bench.table import format_number

if TYPE_CHECKING:
    from penstock.bench.figure import Figure
    from penstock.bench.report import Report

_WIDTH = 860
_BAR_LEFT = 20
_BAR_WIDTH = 400
_BAR_HEIGHT = 16
_ROW_HEIGHT = 76
_TOP = 70
_OURS = "#0072b2"
_PEERS = "#d55e00"
_INK = "#222222"
_SMALL = 12
_LARGE = 18
_CHART_HEIGHT = 260
_PLOT_LEFT = 90
_PLOT_WIDTH = 700
_PLOT_HEIGHT = 180


def render_picture(report: Report) -> str:
    """The text of the SVG file; figures without a peer's value have no bars."""
    shown = [figure for figure in report.figures if figure.value and figure.peer_value]
    charts = [figure for figure in report.figures if figure.series]
    height = _TOP + _ROW_HEIGHT * len(shown) + _CHART_HEIGHT * len(charts) + 10
    size = {"width": str(_WIDTH), "height": str(height), "viewBox": f"0 0 {_WIDTH} {height}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "sans-serif", **size})
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    _write(root, (_BAR_LEFT, 28), f"penstock bench {report.bench}", _LARGE)
    machine = f"{report.machine['cores']} cores, {report.machine['processor']}"
    _write(root, (_BAR_LEFT, 48), machine, _SMALL)
    for number, figure in enumerate(shown):
        _draw_figure(root, _TOP + number * _ROW_HEIGHT, figure)
    for number, figure in enumerate(charts):
        _draw_chart(root, _TOP + len(shown) * _ROW_HEIGHT + number * _CHART_HEIGHT, figure)
    return ET.tostring(root, encoding="unicode") + "\n"


def _draw_figure(root: ET.Element, top: int, figure: Figure) -> None:
    better = "less is better" if figure.better == "less" else "more is better"
    _write(root, (_BAR_LEFT, top + 12), f"{figure.name} ({figure.unit}, {better})", _SMALL, weight="bold")
    values = ((figure.value or 0.0, "Penstock", _OURS), (figure.peer_value or 0.0, figure.peer, _PEERS))
    longest = max(value for value, _, _ in values)
    for place, (value, name, colour) in enumerate(values):
        y = top + 20 + place * (_BAR_HEIGHT + 4)
        width = max(1.0, _BAR_WIDTH * value / longest)
        bar = {"x": str(_BAR_LEFT), "y": str(y), "width": f"{width:.1f}", "height": str(_BAR_HEIGHT), "fill": colour}
        ET.SubElement(root, "rect", bar)
        _write(root, (_BAR_LEFT + round(width) + 6, y + _BAR_HEIGHT - 4), f"{format_number(value)}  {name}", _SMALL)


def _draw_chart(root: ET.Element, top: int, figure: Figure) -> None:
    """Draw the series of a figure over the seconds since each began."""
    _write(root, (_BAR_LEFT, top + 12), f"{figure.name}: {figure.series[0].what}, over seconds", _SMALL, weight="bold")
    points = [point for line in figure.series for point in line.points]
    last, most = (max(*values, 1.0) for values in zip(*points, strict=True))
    floor = top + 30 + _PLOT_HEIGHT
    frame = {"x": str(_PLOT_LEFT), "y": str(top + 30), "width": str(_PLOT_WIDTH), "height": str(_PLOT_HEIGHT)}
    ET.SubElement(root, "rect", {**frame, "fill": "none", "stroke": _INK})
    _write(root, (_BAR_LEFT, top + 42), format_number(most), _SMALL)
    _write(root, (_PLOT_LEFT + _PLOT_WIDTH - 40, floor + 16), f"{format_number(last)} s", _SMALL)
    for place, (line, colour) in enumerate(zip(figure.series, (_OURS, _PEERS), strict=False)):
        path = " ".join(
            f"{_PLOT_LEFT + _PLOT_WIDTH * second / last:.1f},{floor - _PLOT_HEIGHT * max(value, 0) / most:.1f}"
            for second, value in line.points
        )
        ET.SubElement(root, "polyline", {"points": path, "fill": "none", "stroke": colour, "stroke-width": "2"})
        _write(root, (_PLOT_LEFT + 200 * place, floor + 16), line.name, _SMALL, colour=colour)


def _write(
    root: ET.Element, at: tuple[int, int], text: str, size: int, weight: str = "normal", colour: str = _INK
) -> None:
    place = {"x": str(at[0]), "y": str(at[1]), "font-size": str(size), "font-weight": weight, "fill": colour}
    ET.SubElement(root, "text", place).text = text
