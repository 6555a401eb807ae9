"""Why a change of a table cannot be carried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change cannot be carried, and what to do. `column` is "" where it is not about one column."""

    column: str
    reason: str
    hint: str
