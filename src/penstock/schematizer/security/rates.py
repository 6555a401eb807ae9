"""Rates of requests, counted over all worker processes.

The generic cell rate algorithm (ITU-T I.371, annex A; the virtual scheduling
form): of everybody who asks, one number is kept, the time at which all that was
asked would be paid off at the permitted rate. It lives in memory that worker
processes share. Several who write at once may lose each other's request from
the count: a rate is a bound on load, not a bill.
"""

from __future__ import annotations

import hashlib
import mmap
import secrets
import struct
import time

_SETS = 1 << 12
_PLACES = 8
_ENTRY = struct.Struct("=Qd")
_SET_BYTES = _PLACES * _ENTRY.size


class Rates:
    """At most `per_second` for each name, after a first `burst`; 0 is no limit.

    Made before worker processes are forked, it counts for all of them. It knows
    32,768 names; of more, those that asked for the least lately are forgotten.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        """Begin with nobody having asked for anything."""
        self._cost_seconds = 1 / per_second if per_second else 0.0
        self._slack_seconds = self._cost_seconds * (burst - 1)
        self._memory = mmap.mmap(-1, _SETS * _SET_BYTES)
        self._key = secrets.token_bytes(16)

    def take(self, name: str) -> float:
        """Count one request of `name`; return for how many seconds it has to wait, 0 if it need not.

        What has to wait is not counted.
        """
        if not self._cost_seconds:
            return 0.0
        now = time.monotonic()
        place, owner, paid_at = self._find(name)
        wait = paid_at - now - self._slack_seconds
        if wait > 0:
            return wait
        _ENTRY.pack_into(self._memory, place, owner, max(paid_at, now) + self._cost_seconds)
        return 0.0

    def wait_seconds(self, name: str) -> float:
        """Return what `take` would, and count nothing."""
        if not self._cost_seconds:
            return 0.0
        return max(0.0, self._find(name)[2] - time.monotonic() - self._slack_seconds)

    def _find(self, name: str) -> tuple[int, int, float]:
        """Return where the count of `name` is or may be put, its number, and the count."""
        digest = hashlib.blake2b(name.encode(), digest_size=16, key=self._key).digest()
        which, owner = int.from_bytes(digest[:8], "little") % _SETS, int.from_bytes(digest[8:], "little")
        first = which * _SET_BYTES
        entries = list(_ENTRY.iter_unpack(self._memory[first : first + _SET_BYTES]))
        for index, (known, paid_at) in enumerate(entries):
            if known == owner:
                return first + index * _ENTRY.size, owner, paid_at
        least = min(range(_PLACES), key=lambda index: entries[index][1])
        return first + least * _ENTRY.size, owner, 0.0
