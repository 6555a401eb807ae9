"""Places in the logs of sources, each kind with its own form, and their order, which is all that others look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from penstock.core.errors import CorruptLogError, PositionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Order: TypeAlias = tuple[int, int, int]
"""(file number, offset, row): sorts places in the log of one server, and with `in_timeline` in those of several.

A log without files has its places' upper 32 bits as the number: see `WalPosition`.
"""

Partitions: TypeAlias = Literal["one", "many"]
"""Whether a partitioned table of PostgreSQL is read as one table, or each of its partitions as a table of its own."""

FILE_BITS: Final = 32
"""How many bits of an order's first number are the file's; above them is the timeline."""

_FILE_DIGITS_MAX: Final = 20
_SHOWN_MAX: Final = 100

_LSN_BITS: Final = 32
_LSN_MASK: Final = (1 << _LSN_BITS) - 1
_PASSED_BY_MAX: Final = 1000
_POSTGRES: Final = "postgres"
"""What messages call a source whose places are LSNs."""


def file_number(file: str) -> int:
    """The number that a binlog's name ends in: 17 for `mysql-bin.000017`."""
    return int(file.rpartition(".")[2])


def read_file_number(file: str) -> int:
    """`file_number` of what a message says. Raises CorruptLogError for a name that no source's log has."""
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _FILE_DIGITS_MAX or int(digits) >> FILE_BITS:
        reason = f"its log file {file[:_SHOWN_MAX]!r} has no number"
        raise CorruptLogError(reason, "let only Penstock write to this topic")
    return int(digits)


def in_timeline(order: Order, timeline: int) -> Order:
    """Return a place in a log, as its order, behind all places of earlier timelines: in timeline 0 as it is.

    Servers number their files from 1 to 2,147,483,647.
    """
    file, offset, row = order
    return (timeline << FILE_BITS) + file, offset, row


def timeline_of(order: Order) -> int:
    """The timeline that `in_timeline` put an order into."""
    return order[0] >> FILE_BITS


@dataclass(frozen=True, slots=True)
class PreparedXa:
    """A transaction that is prepared (XA PREPARE) at a position, and neither committed nor rolled back by then.

    `xid` is its name in the server's notation, `X'67',X'62',1`. It begins at
    `offset` of `file`; `file` is "" if it has no rows that anybody wants. With an
    `xid` of "" it stands for all that began from that place on.
    """

    xid: str
    file: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The newest heartbeat before a position, and what was counted in the log between the two.

    `serial` and `timestamp_ms` (Unix milliseconds) are what the heartbeat's row
    says; it ends at `offset` of `file`. Then came `transactions` (lone statements
    too), with `row_bytes` of rows and a `checksum` over those and the statements.
    With a `serial` of 0 there was none yet, and counted is what came since the
    reader began.
    """

    serial: int = 0
    timestamp_ms: int = 0
    file: str = ""
    offset: int = 0
    transactions: int = 0
    row_bytes: int = 0
    checksum: int = 0

    def counts_as(self, other: Heartbeat) -> bool:
        """Whether `other` is the same heartbeat with the same behind it, in another server's log perhaps."""
        return self.counted == other.counted

    @property
    def counted(self) -> tuple[int, int, int, int]:
        """What is the same in the logs of all servers that have the same transactions."""
        return self.serial, self.transactions, self.row_bytes, self.checksum

    def with_counts(self, transactions: int, row_bytes: int, checksum: int) -> Heartbeat:
        """Count more; the checksum has 64 bits, and does not depend on what is counted first."""
        return replace(
            self,
            transactions=self.transactions + transactions,
            row_bytes=self.row_bytes + row_bytes,
            checksum=(self.checksum + checksum) % (1 << 64),
        )


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place between two events of a binlog.

    `offset` is the byte offset, in `file`, of the start of a transaction (or of
    a statement outside of one): the place a server can be asked to send from.
    `rows_from` is 0 at such a boundary; in the middle of a transaction that was
    published in pieces it is the byte offset of the first ROWS event that is
    not yet published (for one in a compressed transaction, the sum of the offset
    of the event that holds it and its own in there). `gtids` is the set of transactions executed before
    `offset`, in the server's own notation; empty where GTIDs are off. `prepared`
    lists the XA transactions whose rows are in the log before `offset` and whose
    commit may come behind it. `file_created` is when `file` was begun, Unix
    seconds, 0 where that is not known: another log has a file of that name from
    another time; two positions are equal without it. `timeline` counts the failovers: a
    position of a later timeline is behind all of an earlier one, whatever their files
    are called. `heartbeat` is the newest before the position, None where nobody
    looks for them.
    """

    file: str
    offset: int
    rows_from: int = 0
    gtids: str = ""
    prepared: tuple[PreparedXa, ...] = ()
    file_created: int = field(default=0, compare=False)
    timeline: int = 0
    heartbeat: Heartbeat | None = None

    @property
    def read_from(self) -> tuple[str, int]:
        """File and offset from which on a reader needs the log: the position, or the oldest of `prepared` before it."""
        places = [(self.file, self.offset), *((xa.file, xa.offset) for xa in self.prepared if xa.file)]
        return min(places, key=lambda place: (file_number(place[0]), place[1])) if self.prepared else places[0]

    @property
    def order(self) -> Order:
        """Sorts positions of one server by their place in its log. See `in_timeline` for those of several."""
        return file_number(self.file), self.offset, self.rows_from

    @property
    def reach(self) -> tuple[int, int]:
        """File number and offset behind which no message is that was published up to here."""
        return file_number(self.file), max(self.offset, self.rows_from)

    @property
    def refresh_place(self) -> BinlogPosition:
        """The place that rows have which are read again here: behind the transaction before, ahead of the next."""
        return self

    @property
    def server_timeline(self) -> int:
        """See WalPosition: servers of binlogs have none."""
        return 0

    @property
    def is_open(self) -> bool:
        """Whether a transaction began before this place whose fate comes behind it."""
        return bool(self.prepared)

    def to_mapping(self) -> dict[str, object]:
        """As JSON values; what a failover asks for is left out where there is nothing to say."""
        mapping: dict[str, object] = {
            "file": self.file,
            "offset": self.offset,
            "rows_from": self.rows_from,
            "gtids": self.gtids,
            "file_created": self.file_created,
            "prepared": [[xa.xid, xa.file, xa.offset] for xa in self.prepared],
        }
        if self.timeline:
            mapping["era"] = self.timeline
        if self.heartbeat is not None and self.heartbeat.serial:
            mapping["heartbeat"] = asdict(self.heartbeat)
        return mapping

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> BinlogPosition:
        """Read it back, from among others' keys too; KeyError or ValueError if it is none."""
        prepared, heartbeat = mapping["prepared"], mapping.get("heartbeat")
        if not isinstance(prepared, list):
            message = "a position without its prepared transactions"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            file=str(mapping["file"]),
            offset=int(str(mapping["offset"])),
            rows_from=int(str(mapping["rows_from"])),
            gtids=str(mapping["gtids"]),
            prepared=tuple(PreparedXa(*xa) for xa in prepared),
            file_created=int(str(mapping.get("file_created", 0))),
            timeline=int(str(mapping.get("era", 0))),
            heartbeat=Heartbeat(**heartbeat) if isinstance(heartbeat, dict) else None,
        )

    def __str__(self) -> str:
        """`file:offset`, as operators write it."""
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class WalPosition:
    """A place between two changes of PostgreSQL's log, in the order in which transactions are committed.

    With `rows_from` 0 it is a boundary between transactions: all that were committed
    before `lsn` are behind us. In a transaction that is published in pieces, `lsn` is
    where its COMMIT begins, and the rows with numbers from `rows_from` on are not yet
    published. `tables_from` is the first OID that no table had when the slot was made:
    all rows of tables with that OID or a higher one are in the log. `passed_by` are
    those of them that had rows which nobody wanted. `timeline` counts
    servers that do not continue each other's log. `server_timeline` is the server's own timeline
    (TimeLineID) in which `lsn` was read, 0 where that is not known: a promoted standby
    begins another one; two positions are equal without it. `timeline_from` is the LSN at which that one
    began, by which two servers that gave theirs the same number are told apart, 0 where that is not known, and
    for the first one. `partitions` is how partitioned
    tables were read up to here. `publication` is the one whose rows `rows_from` counts: of
    the same transaction another publication has others. It is "" where that is not known, as
    in what older releases wrote, and between transactions nobody needs it.
    """

    lsn: int
    rows_from: int = 0
    tables_from: int = 0
    timeline: int = 0
    passed_by: tuple[int, ...] = ()
    server_timeline: int = field(default=0, compare=False)
    partitions: Partitions = "one"
    publication: str = field(default="", compare=False)
    timeline_from: int = field(default=0, compare=False)

    @property
    def file(self) -> str:
        """What stands for the log's file in messages: a name that has the LSN's upper half as its number."""
        return f"wal.{self.lsn >> _LSN_BITS:06d}"

    @property
    def offset(self) -> int:
        """What stands for the offset in it in messages: the LSN's lower half."""
        return self.lsn & _LSN_MASK

    @property
    def order(self) -> Order:
        """Sorts positions, as a `BinlogPosition`'s does."""
        return self.lsn >> _LSN_BITS, self.offset, self.rows_from

    @property
    def reach(self) -> tuple[int, int]:
        """File number and offset behind which no message is that was published up to here."""
        return self.order[:2]

    @property
    def refresh_place(self) -> WalPosition:
        """See BinlogPosition: the next COMMIT may begin at this very place, and the last one ends there."""
        return replace(self, lsn=self.lsn - 1)

    @property
    def is_open(self) -> bool:
        """Whether a transaction began before this place whose fate comes behind it: a slot keeps all of such."""
        return False

    def to_mapping(self) -> dict[str, object]:
        """As JSON values."""
        mapping: dict[str, object] = {"lsn": str(self), "rows_from": self.rows_from, "tables_from": self.tables_from}
        if self.passed_by:
            mapping["passed_by"] = list(self.passed_by)
        if self.server_timeline:
            mapping["server_timeline"] = self.server_timeline
        if self.timeline_from:
            mapping["timeline_from"] = str(WalPosition(self.timeline_from))
        if self.partitions != "one":
            mapping["partitions"] = self.partitions
        if self.rows_from and self.publication:
            mapping["publication"] = self.publication
        return {**mapping, "era": self.timeline} if self.timeline else mapping

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> WalPosition:
        """Read it back, from among others' keys too; KeyError or ValueError if it is none."""
        return cls(
            lsn=parse_lsn(str(mapping["lsn"])),
            rows_from=int(str(mapping["rows_from"])),
            tables_from=int(str(mapping["tables_from"])),
            timeline=int(str(mapping.get("era", 0))),
            passed_by=tuple(passed_by) if isinstance(passed_by := mapping.get("passed_by"), list) else (),
            server_timeline=int(str(mapping.get("server_timeline", 0))),
            partitions=_partitions(mapping.get("partitions", "one")),
            publication=str(mapping.get("publication", "")),
            timeline_from=parse_lsn(str(mapping.get("timeline_from", "0/0"))),
        )

    def passing_by(self, oid: int) -> WalPosition:
        """Return it behind a row of the table with this OID that nobody wanted.

        Of very many such tables the older ones are known by `tables_from` alone: a table
        that was made before them and had no row yet then counts as one of them.
        """
        if oid < self.tables_from or oid in self.passed_by:
            return self
        passed_by = sorted((*self.passed_by, oid))
        if len(passed_by) <= _PASSED_BY_MAX:
            return replace(self, passed_by=tuple(passed_by))
        half = _PASSED_BY_MAX // 2
        return replace(self, tables_from=passed_by[-half - 1] + 1, passed_by=tuple(passed_by[-half:]))

    def has_all_of(self, oid: int) -> bool:
        """Whether all rows of the table with this OID that were logged before are carried, or nobody made any."""
        return oid >= self.tables_from and oid not in self.passed_by

    def __str__(self) -> str:
        """The LSN, as PostgreSQL prints it: 16/B374D848."""
        return f"{self.lsn >> _LSN_BITS:X}/{self.offset:X}"


Position: TypeAlias = BinlogPosition | WalPosition
"""A place in a source's log. Those of two kinds are never of one log."""


def _partitions(text: object) -> Partitions:
    found: Sequence[Partitions] = [each for each in get_args(Partitions) if each == text]
    if not found:
        message = f"{text!r} is no way to read partitions"
        raise ValueError(message)
    return found[0]


def parse_lsn(text: str) -> int:
    """Read an LSN as PostgreSQL prints it; ValueError if it is none."""
    high, slash, low = text.partition("/")
    number = (int(high, 16) << _LSN_BITS) + int(low, 16) if slash else -1
    if not 0 <= number < 1 << 2 * _LSN_BITS:
        message = f"{text!r} is no LSN"
        raise ValueError(message)
    return number


def place_text(connector: str, file: str, offset: int) -> str:
    """Return the place of a change, as messages have it, as operators of such a source write it."""
    if connector == _POSTGRES:
        return str(WalPosition((file_number(file) << _LSN_BITS) + offset))
    return f"{file}:{offset}"


def parse_place(text: str) -> tuple[str, int]:
    """Return file and offset of what `place_text` gave; ValueError if it did not."""
    file, colon, offset = text.rpartition(":")
    if colon:
        return file, int(offset)
    place = WalPosition(parse_lsn(text))
    return place.file, place.offset


def position_from_mapping(mapping: Mapping[str, object]) -> Position:
    """Read a position of either kind, from among others' keys too; KeyError or ValueError if it is none."""
    return WalPosition.from_mapping(mapping) if "lsn" in mapping else BinlogPosition.from_mapping(mapping)


def binlog_position(position: Position) -> BinlogPosition:
    """Return `position` as one in a binlog. Raises PositionError if the source is of another kind than it was."""
    if isinstance(position, BinlogPosition):
        return position
    raise _another_kind(position, "PostgreSQL", "MySQL")


def wal_position(position: Position) -> WalPosition:
    """Return `position` as one in PostgreSQL's log. Raises PositionError as `binlog_position` does."""
    if isinstance(position, WalPosition):
        return position
    raise _another_kind(position, "MySQL", "PostgreSQL")


def _another_kind(position: Position, was: str, is_now: str) -> PositionError:
    message = f"the pipeline stands at {position} in the log of a {was} server, and its source is {is_now} now"
    return PositionError(message, "change `kind` back, or give the new source a name of its own")


def bytes_between(begin: BinlogPosition, end: BinlogPosition, files: Sequence[tuple[str, int]]) -> int:
    """How many bytes of a log lie between two positions, given its `files` with their sizes; 0 if `end` is before."""
    low, high = file_number(begin.file), file_number(end.file)
    sizes = {file_number(name): size for name, size in files}
    between = sum(size for number, size in sizes.items() if low <= number < high)
    return max(0, between - begin.offset + end.offset)
