"""What a service is protected by, as its command line says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.schematizer.http.limits import Limits
from penstock.schematizer.security.rates import Rates

if TYPE_CHECKING:
    from pathlib import Path

_FAILURES_PER_SECOND = 0.2
_FAILURES_AT_FIRST = 10


@dataclass(frozen=True, slots=True)
class Protection:
    """Who may come in (everybody without a users file), how often, and with how much.

    `is_on_loopback`: only this machine reaches it, and no proxy leads here; then
    whoever does not sign in is answered by names of this machine alone. Its
    counts are shared by the processes that are forked after it was made.
    """

    users_file: Path | None = None
    limits: Limits = field(default_factory=Limits)
    rates: Rates = field(default_factory=lambda: Rates(0, 1))
    is_on_loopback: bool = False
    failures: Rates = field(default_factory=lambda: Rates(_FAILURES_PER_SECOND, _FAILURES_AT_FIRST))
