"""How many examples of a conversation with servers there are in a run for every change, and in longer ones."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(daily: int, share: int) -> int:
    """`daily`, which take some seconds; where a profile is asked for by name, one in `share` of its number."""
    if os.environ.get("HYPOTHESIS_PROFILE", "penstock") == "penstock":
        return daily
    return max(1, settings().max_examples // share)
