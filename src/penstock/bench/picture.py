"""A report as an SVG: for every figure with a peer, two bars of which the shorter is the better one.

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


def render_picture(report: Report) -> str:
    """The text of the SVG file; figures without a peer's value are not in it."""
    shown = [figure for figure in report.figures if figure.value and figure.peer_value]
    height = _TOP + _ROW_HEIGHT * len(shown) + 10
    size = {"width": str(_WIDTH), "height": str(height), "viewBox": f"0 0 {_WIDTH} {height}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "sans-serif", **size})
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    _write(root, _BAR_LEFT, 28, f"penstock bench {report.bench}", _LARGE)
    machine = f"{report.machine['cores']} cores, {report.machine['processor']}"
    _write(root, _BAR_LEFT, 48, machine, _SMALL)
    for number, figure in enumerate(shown):
        _draw_figure(root, _TOP + number * _ROW_HEIGHT, figure)
    return ET.tostring(root, encoding="unicode") + "\n"


def _draw_figure(root: ET.Element, top: int, figure: Figure) -> None:
    better = "less is better" if figure.better == "less" else "more is better"
    _write(root, _BAR_LEFT, top + 12, f"{figure.name} ({figure.unit}, {better})", _SMALL, weight="bold")
    values = ((figure.value or 0.0, "Penstock", _OURS), (figure.peer_value or 0.0, figure.peer, _PEERS))
    longest = max(value for value, _, _ in values)
    for place, (value, name, colour) in enumerate(values):
        y = top + 20 + place * (_BAR_HEIGHT + 4)
        width = max(1.0, _BAR_WIDTH * value / longest)
        bar = {"x": str(_BAR_LEFT), "y": str(y), "width": f"{width:.1f}", "height": str(_BAR_HEIGHT), "fill": colour}
        ET.SubElement(root, "rect", bar)
        _write(root, _BAR_LEFT + round(width) + 6, y + _BAR_HEIGHT - 4, f"{format_number(value)}  {name}", _SMALL)


def _write(root: ET.Element, x: int, y: int, text: str, size: int, weight: str = "normal") -> None:
    place = {"x": str(x), "y": str(y), "font-size": str(size), "font-weight": weight, "fill": _INK}
    ET.SubElement(root, "text", place).text = text
