"""What looking at a server found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `hint` says what to do; "" where all is well."""

    level: Literal["error", "warning", "ok"]
    subject: str
    message: str
    hint: str = ""
