"""Which partitions a table has, as a number that tells whether some were attached or taken away since.

ATTACH, DETACH and DROP of a partition are not in the log, though rows come and go with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_HASH_BITS: Final = 31
"""With an OID above them, they fit a signed number of 64 bits."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its OID, at whatever level: the transaction that made it one, and whether that made the table."""

    oid: int
    attached_by: int
    is_made_as_one: bool


def partitions_number(partitions: Collection[Partition]) -> int:
    """Return the number of a table's partitions, above 0."""
    return _number(max((each.oid for each in partitions), default=0), partitions)


def have_changed(number: int, partitions: Collection[Partition]) -> bool:
    """Whether some were attached, detached or dropped since `number` was that of the table's partitions.

    Those that were made as partitions since had no rows before, and do not count: newer tables have higher OIDs.
    """
    return _number(number >> _HASH_BITS, partitions) != number


def _number(newest: int, partitions: Collection[Partition]) -> int:
    counted = sorted((p.oid, p.attached_by) for p in partitions if p.oid <= newest or not p.is_made_as_one)
    digest = hashlib.blake2b(repr(counted).encode(), digest_size=8).digest()
    return newest << _HASH_BITS | (int.from_bytes(digest, "big") % ((1 << _HASH_BITS) - 1) + 1)
