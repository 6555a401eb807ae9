"""Which partitions a table has, as numbers that tell whether some came, went or were emptied since.

ATTACH, DETACH, DROP and TRUNCATE of a partition are not in the log, though rows come and go with them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_HASH_BITS: Final = 31
"""With an OID above them, they fit a signed number of 64 bits."""
_UNKNOWN_FILE: Final = -1
"""No partition has it."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its OID, at whatever level: the transaction that made it one, and whether that made the table.

    `file` is that of its rows, 0 where it has none of its own: first its OID, and another one whenever it is emptied or
    written anew. `altered_by` is the transaction that wrote its row of pg_class last. `name` is as SQL writes it.

    `identity` are the columns that the old row of a change has in the log, and `is_logged_whole` says that it has all:
    neither where rows cannot be changed, or where the partition has partitions itself.
    """

    oid: int
    attached_by: int
    is_made_as_one: bool
    file: int = 0
    altered_by: int = 0
    name: str = ""
    is_logged_whole: bool = False
    identity: tuple[str, ...] = ()

    @property
    def has_first_file(self) -> bool:
        """Whether it never was emptied or written anew."""
        return self.file in {0, self.oid}


def without_old_rows(
    key: Collection[str], *, is_whole: bool, partitions: Collection[Partition]
) -> Collection[Partition]:
    """Return the partitions whose log lacks what the table's own identity promises of old rows.

    That is the `key`, or of a table without one the whole row; `is_whole` says that this is the table's identity.
    """
    if key:
        return [each for each in partitions if each.identity and not set(key) <= set(each.identity)]
    return [each for each in partitions if each.identity or (each.is_logged_whole and not is_whole)]


def partitions_number(partitions: Collection[Partition]) -> int:
    """Return the number of a table's partitions, above 0."""
    return _number(max((each.oid for each in partitions), default=0), partitions)


def told_apart(number: int, partitions: Collection[Partition]) -> Collection[Partition]:
    """Return the partitions that count beside `number`: those that were made as such since had no rows before."""
    newest = number >> _HASH_BITS
    return [each for each in partitions if each.oid <= newest or not each.is_made_as_one]


def have_changed(number: int, partitions: Collection[Partition]) -> bool:
    """Whether some were attached, detached or dropped since `number` was that of the table's partitions.

    Those that were made as partitions since do not count: newer tables have higher OIDs.
    """
    return _number(number >> _HASH_BITS, partitions) != number


def files_number(partitions: Collection[Partition], emptied_by: int | None = None) -> int:
    """Return the number of the files of a table's partitions, above 0.

    `emptied_by` is the transaction of a TRUNCATE of the whole table, which the log has. The catalog may be newer. The
    file of a partition that nobody altered since is that of this TRUNCATE; another one may have been emptied once more,
    so its file counts as unknown, from which every file differs.
    """
    known = [
        each if emptied_by in {None, each.altered_by} or each.has_first_file else replace(each, file=_UNKNOWN_FILE)
        for each in partitions
    ]
    return _files_number(max((each.oid for each in known), default=0), known)


def were_rewritten(number: int, partitions: Collection[Partition]) -> bool:
    """Whether some were emptied, or written anew, since `number` was that of the files; those made since, too."""
    return _files_number(number >> _HASH_BITS, partitions) != number


def _number(newest: int, partitions: Collection[Partition]) -> int:
    return _packed(newest, ((p.oid, p.attached_by) for p in partitions if p.oid <= newest or not p.is_made_as_one))


def _files_number(newest: int, partitions: Collection[Partition]) -> int:
    return _packed(newest, ((p.oid, p.file) for p in partitions if p.oid <= newest or not p.has_first_file))


def _packed(newest: int, counted: Iterable[tuple[int, int]]) -> int:
    digest = hashlib.blake2b(repr(sorted(counted)).encode(), digest_size=8).digest()
    return newest << _HASH_BITS | (int.from_bytes(digest, "big") % ((1 << _HASH_BITS) - 1) + 1)
