"""Sets of executed transactions, in MariaDB's and in MySQL's notation.

Sources: MariaDB Knowledge Base, "Global Transaction ID" and "Gtid_list_event";
MySQL manual 19.1.3.1 "GTID Format and Storage" and internals, `Previous_gtids_event`.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from penstock.core.mysql.bytes_reader import BytesReader, MalformedError

_LIST_COUNT_MASK: Final = (1 << 28) - 1
_INTERVAL_BYTES: Final = 16


class MariadbGtids:
    """The newest transaction of each domain: `0-1-42,7-3-9`, sorted by domain."""

    __slots__ = ("_newest",)

    def __init__(self, newest: dict[str, str]) -> None:
        """Begin with the newest GTID (its whole text) of each domain."""
        self._newest = _by_domain(newest)

    @classmethod
    def parse(cls, text: str) -> MariadbGtids:
        """Read the server's notation; ValueError for another."""
        return cls({gtid.strip().partition("-")[0]: gtid.strip() for gtid in text.split(",")})

    @classmethod
    def decode_list(cls, body: bytes | memoryview) -> MariadbGtids:
        """Read a GTID_LIST event after its header; of each domain its last entry is the newest."""
        reader = BytesReader(body)
        newest: dict[str, str] = {}
        for _ in range(reader.integer(4) & _LIST_COUNT_MASK):
            domain, server, sequence = reader.integer(4), reader.integer(4), reader.integer(8)
            newest[str(domain)] = f"{domain}-{server}-{sequence}"
        return cls(newest)

    def add(self, gtid: str) -> None:
        """Count one more transaction as executed."""
        domain = gtid.partition("-")[0]
        if domain in self._newest:
            self._newest[domain] = gtid
        else:
            self._newest = _by_domain({**self._newest, domain: gtid})

    def __str__(self) -> str:
        """The server's notation."""
        return ",".join(self._newest.values())


class MysqlGtids:
    """Intervals of transaction numbers per server UUID: `uuid:1-5:7`."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: dict[str, list[tuple[int, int]]]) -> None:
        """Begin with sorted, disjoint [first, last] intervals per UUID."""
        self._intervals = intervals

    @classmethod
    def parse(cls, text: str) -> MysqlGtids:
        """Read the server's notation; ValueError for another, tagged GTIDs included."""
        sets: dict[str, list[tuple[int, int]]] = {}
        for part in text.split(","):
            uuid, *ranges = part.strip().split(":")
            bounds = [interval.split("-") for interval in ranges]
            sets[str(UUID(uuid))] = [(int(bound[0]), int(bound[-1])) for bound in bounds]
        return cls(sets)

    @classmethod
    def decode_previous(cls, body: bytes | memoryview) -> MysqlGtids:
        """Read a PREVIOUS_GTIDS event after its header; MalformedError for the tagged form of MySQL 8.3 and later."""
        reader = BytesReader(body)
        sets: dict[str, list[tuple[int, int]]] = {}
        for _ in range(reader.integer(8)):
            uuid = str(UUID(bytes=reader.take(16)))
            count = reader.integer(8)
            if count * _INTERVAL_BYTES > reader.left:
                message = f"{count} GTID intervals do not fit in {reader.left} bytes"
                raise MalformedError(message)
            sets[uuid] = [(reader.integer(8), reader.integer(8) - 1) for _ in range(count)]
        return cls(sets)

    def add(self, gtid: str) -> None:
        """Count one more transaction, `uuid:number`, as executed."""
        uuid, _, number_text = gtid.partition(":")
        number = int(number_text)
        intervals = self._intervals.setdefault(uuid, [])
        if intervals and intervals[-1][1] + 1 == number:
            intervals[-1] = (intervals[-1][0], number)
            return
        intervals.append((number, number))
        self._intervals[uuid] = _merged(intervals)

    def __str__(self) -> str:
        """The server's notation, sorted by UUID."""
        return ",".join(
            ":".join([uuid, *(f"{first}-{last}" if last > first else str(first) for first, last in intervals)])
            for uuid, intervals in sorted(self._intervals.items())
            if intervals
        )


GtidSet: TypeAlias = MariadbGtids | MysqlGtids


def parse_gtids(text: str) -> GtidSet | None:
    """Read a set in either notation; None for "", which says that the set is not known."""
    if not text:
        return None
    return MysqlGtids.parse(text) if ":" in text else MariadbGtids.parse(text)


def _by_domain(newest: dict[str, str]) -> dict[str, str]:
    return dict(sorted(newest.items(), key=lambda domain_and_gtid: int(domain_and_gtid[0])))


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
