"""Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Family:
    """One metric: its name, what it means, and a value for each set of labels."""

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    values: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a value; one that is not known is left out, for no number could say so."""
        if value is not None:
            self.values.append((labels, float(value)))


def render_metrics(families: Sequence[Family], common: Mapping[str, str]) -> str:
    """Write `families`, every value with the `common` labels too."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {_escape(family.text)}", f"# TYPE {family.name} {family.kind}"]
        for labels, value in family.values:
            shown = ",".join(f'{name}="{_escape(text, quotes=True)}"' for name, text in {**common, **labels}.items())
            lines.append(f"{family.name}{{{shown}}} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    # A lone surrogate has no UTF-8.
    escaped = escaped.encode("utf-8", "backslashreplace").decode()
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
