"""Sets of executed transactions, in MariaDB's and in MySQL's notation.

Sources: MariaDB Knowledge Base, "Global Transaction ID" and "Gtid_list_event";
MySQL manual 19.1.3.1 "GTID Format and Storage" and internals, `Previous_gtids_event`
and `Gtid_set::encode`.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias
from uuid import UUID

from penstock.core.errors import PositionError
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

MYSQL_NUMBER_MAX: Final = (1 << 63) - 1
"""The highest number of a GTID of MySQL; the first is 1."""

_LIST_COUNT_MASK: Final = (1 << 28) - 1
_INTERVAL_BYTES: Final = 16
_TAGGED_FORM: Final = 1
_MARIADB_GTID: Final = re.compile("[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,20}")
_INTERVAL: Final = re.compile("([0-9]{1,19})(?:-([0-9]{1,19}))?")
_TAG: Final = re.compile("[a-zA-Z_][a-zA-Z0-9_]{0,31}")
_NOTATIONS: Final = (
    "write it as the server shows it, such as 0-1-42,7-1-9 (gtid_binlog_pos of MariaDB) or "
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7 (gtid_executed of MySQL)"
)


class MariadbGtids:
    """The newest transaction of each domain: `0-1-42,7-3-9`, sorted by domain."""

    __slots__ = ("_newest",)

    def __init__(self, newest: dict[str, str]) -> None:
        """Begin with the newest GTID (its whole text) of each domain."""
        self._newest = _by_domain(newest)

    @classmethod
    def parse(cls, text: str) -> MariadbGtids:
        """Read the server's notation; ValueError for another."""
        gtids = [gtid.strip() for gtid in text.split(",")]
        for gtid in gtids:
            if not _MARIADB_GTID.fullmatch(gtid):
                message = f"{gtid!r} is not domain-server-number"
                raise ValueError(message)
        return cls({gtid.partition("-")[0]: gtid for gtid in gtids})

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

    def add_stretch(self, origin: str, _: int, last: int) -> None:
        """Count the transactions up to `last` of `origin` (`domain-server-`) as executed."""
        self.add(f"{origin}{last}")

    def __contains__(self, gtid: str) -> bool:
        """Whether a transaction was executed, as far as its domain's numbers only grow (gtid_strict_mode)."""
        domain, _, number = gtid.split("-")
        newest = self._newest.get(domain)
        return newest is not None and int(number) <= int(newest.rpartition("-")[2])

    def reaches(self, other: MariadbGtids) -> bool:
        """Whether every transaction of `other` was executed, as far as numbers of a domain only grow."""
        return all(gtid in self for gtid in other._newest.values())

    def is_behind(self, other: MariadbGtids) -> bool:
        """Whether nothing of the domains of `other` was executed that was not executed there."""
        return all(gtid in other for domain, gtid in self._newest.items() if domain in other._newest)

    def has_at_their_ends(self, other: MariadbGtids) -> bool:
        """Whether the newest of each domain of `other` is the newest here too, with the same server."""
        return all(self._newest.get(domain) == gtid for domain, gtid in other._newest.items())

    def without_quiet(self, logged: MariadbGtids, replicated: MariadbGtids) -> MariadbGtids:
        """Leave out the domains in which a server is exactly as far, but has logged nothing."""
        return MariadbGtids(
            {
                domain: gtid
                for domain, gtid in self._newest.items()
                if domain in logged._newest or replicated._newest.get(domain) != gtid
            }
        )

    def lacking(self, other: MariadbGtids) -> str:
        """Say which transactions of `other` were not executed here, domain by domain; "" for none."""
        return ", ".join(
            f"those up to {gtid} (here domain {domain} is at {self._newest.get(domain, 'nothing')})"
            for domain, gtid in other._newest.items()
            if gtid not in self
        )

    def __str__(self) -> str:
        """The server's notation."""
        return ",".join(self._newest.values())


class MysqlGtids:
    """Intervals of transaction numbers per server UUID, and per tag (MySQL 8.3 and later): `uuid:1-5:7:tag:1-3`."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: dict[str, list[tuple[int, int]]]) -> None:
        """Begin with sorted, disjoint [first, last] intervals per `uuid` or `uuid:tag`."""
        self._intervals = intervals

    @classmethod
    def parse(cls, text: str) -> MysqlGtids:
        """Read the server's notation; ValueError for another."""
        sets: dict[str, list[tuple[int, int]]] = {}
        for part in text.split(","):
            uuid_text, *words = (word.strip() for word in part.split(":"))
            origin = uuid = str(UUID(uuid_text))
            for word in words:
                if tag := _TAG.fullmatch(word):
                    origin = f"{uuid}:{tag[0].lower()}"
                else:
                    sets.setdefault(origin, []).append(_interval(word))
        return cls({origin: _merged(intervals) for origin, intervals in sets.items()})

    @classmethod
    def decode_previous(cls, body: bytes | memoryview) -> MysqlGtids:
        """Read a PREVIOUS_GTIDS event after its header, in either of its forms; MalformedError if it is not one.

        Tags are in lower case, as in GTID events: that is how the server keeps them.
        """
        reader = BytesReader(body)
        count, tagged = _origins(reader.integer(8))
        sets: dict[str, list[tuple[int, int]]] = {}
        for _ in range(count):
            origin = str(UUID(bytes=reader.take(16)))
            tag = reader.text(_tag_bytes(reader)) if tagged else ""
            if tag and not (_TAG.fullmatch(tag) and tag == tag.lower()):
                message = f"{tag!r} is no tag of a GTID"
                raise MalformedError(message)
            sets[f"{origin}:{tag}" if tag else origin] = _decoded_intervals(reader)
        return cls(sets)

    def add(self, gtid: str) -> None:
        """Count one more transaction, `uuid:number` or `uuid:tag:number`, as executed."""
        origin, _, number = gtid.rpartition(":")
        self.add_stretch(f"{origin}:", int(number), int(number))

    def add_stretch(self, origin: str, first: int, last: int) -> None:
        """Count the transactions from `first` to `last` of `origin` (`uuid:`) as executed."""
        origin = origin.removesuffix(":")
        intervals = self._intervals.setdefault(origin, [])
        if intervals and intervals[-1][1] + 1 == first:
            intervals[-1] = (intervals[-1][0], last)
            return
        intervals.append((first, last))
        self._intervals[origin] = _merged(intervals)

    def add_set(self, other: MysqlGtids) -> None:
        """Count all transactions of another set as executed."""
        for origin, intervals in other._intervals.items():
            self._intervals[origin] = _merged([*self._intervals.get(origin, []), *intervals])

    def __contains__(self, gtid: str) -> bool:
        """Whether a transaction, `uuid:number` or `uuid:tag:number`, was executed."""
        origin, _, number = gtid.rpartition(":")
        return any(first <= int(number) <= last for first, last in self._intervals.get(origin, ()))

    def reaches(self, other: MysqlGtids) -> bool:
        """Whether every transaction of `other` was executed."""
        return not other._without(self)

    def lacking(self, other: MysqlGtids) -> str:
        """Say which transactions of `other` were not executed here; "" for none."""
        return str(MysqlGtids(other._without(self)))

    def _without(self, other: MysqlGtids) -> dict[str, list[tuple[int, int]]]:
        """The intervals of this set that are not in `other`."""
        left = {
            origin: _difference(intervals, other._intervals.get(origin, []))
            for origin, intervals in self._intervals.items()
        }
        return {origin: intervals for origin, intervals in left.items() if intervals}

    def __str__(self) -> str:
        """The server's notation, sorted by UUID and tag."""
        parts: dict[str, list[str]] = {}
        for origin, intervals in sorted(self._intervals.items()):
            uuid, _, tag = origin.partition(":")
            if intervals:
                words = parts.setdefault(uuid, [uuid])
                words += [tag] if tag else []
                words += [f"{first}-{last}" if last > first else str(first) for first, last in intervals]
        return ",".join(":".join(words) for words in parts.values())


GtidSet: TypeAlias = MariadbGtids | MysqlGtids


def parse_gtids(text: str) -> GtidSet | None:
    """Read a set in either notation; None for "", which says that the set is not known. Raises PositionError."""
    if not text:
        return None
    try:
        return MysqlGtids.parse(text) if ":" in text else MariadbGtids.parse(text)
    except ValueError as error:
        message = f"{text!r} is no GTID set: {error}"
        raise PositionError(message, _NOTATIONS) from error


def add_known(text: str, known: str) -> str:
    """Add to a set that a log of MySQL lists, which may leave some out, what was `known` to be executed before.

    Any other set, or one that is not known, stays as it is.
    """
    gtids = parse_gtids(text)
    before = parse_gtids(known) if isinstance(gtids, MysqlGtids) else None
    if not isinstance(gtids, MysqlGtids) or not isinstance(before, MysqlGtids):
        return text
    gtids.add_set(before)
    return str(gtids)


def _interval(word: str) -> tuple[int, int]:
    found = _INTERVAL.fullmatch(word)
    first = int(found[1]) if found else 0
    last = int(found[2] or first) if found else 0
    if not 0 < first <= last <= MYSQL_NUMBER_MAX:
        message = f"{word!r} is neither an interval of numbers nor a tag"
        raise ValueError(message)
    return first, last


def _origins(word: int) -> tuple[int, bool]:
    """How many servers (and tags) a PREVIOUS_GTIDS event lists, and whether with tags.

    The form's number is the highest byte, which is 0 in the form without tags. With tags
    it stands in the lowest byte too, and the count is between.
    """
    form = word >> 56
    if form == 0:
        return word, False
    if form != _TAGGED_FORM or word & 0xFF != _TAGGED_FORM:
        message = f"a list of GTIDs of the unknown form {form}"
        raise MalformedError(message)
    return word >> 8 & 0xFFFF_FFFF_FFFF, True


def _tag_bytes(reader: BytesReader) -> int:
    """The length of a tag: at most 32, so that it has one byte, whose lowest bit is 0."""
    length, is_long = divmod(reader.integer(1), 2)
    if is_long:
        message = "a tag of a GTID that is too long"
        raise MalformedError(message)
    return length


def _decoded_intervals(reader: BytesReader) -> list[tuple[int, int]]:
    count = reader.integer(8)
    if count * _INTERVAL_BYTES > reader.left:
        message = f"{count} GTID intervals do not fit in {reader.left} bytes"
        raise MalformedError(message)
    intervals = [(reader.integer(8), reader.integer(8) - 1) for _ in range(count)]
    if any(not 0 < first <= last <= MYSQL_NUMBER_MAX for first, last in intervals):
        message = "a GTID interval that ends before it begins, or has numbers that there are not"
        raise MalformedError(message)
    return _merged(intervals)


def _by_domain(newest: dict[str, str]) -> dict[str, str]:
    return dict(sorted(newest.items(), key=lambda domain_and_gtid: int(domain_and_gtid[0])))


def _difference(intervals: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of sorted, disjoint intervals is in none of the others, which are so too."""
    left: list[tuple[int, int]] = []
    for first, last in intervals:
        at = first
        for low, high in others:
            if high < at or low > last:
                continue
            if low > at:
                left.append((at, low - 1))
            at = high + 1
        if at <= last:
            left.append((at, last))
    return left


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
