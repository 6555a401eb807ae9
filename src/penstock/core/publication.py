"""What one Kafka transaction holds: messages, and the record of how far they bring a link."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.changes import Messages
from penstock.core.positions import position_from_mapping
from penstock.core.publish_tokens import PublishToken, TokenState
from penstock.core.snapshots import Reread, SnapshotProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.core.positions import Position
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that a capture no longer carries, since when and why."""

    position: str
    error: str
    hint: str


def nothing_left(table: str) -> str:
    """What to do about a stopped table that was dropped or renamed since."""
    return (
        f'nothing is left to carry under that name: leave it out with "!{table}" under tables to hide it; '
        "what the targets have of it stays as it was"
    )


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """The position record of a capture.

    It is committed with the messages it covers, so it says exactly where the
    capture stands. `epoch` is the number of the instance that wrote it: an
    instance that finds a higher one has been replaced. `rows` counts what this
    one transaction added: table to (rows, newest commit time in Unix ms). `server`
    is the identity of the server in whose log the position is, "" where an older
    release wrote the record. `publish_token` is that of a range of a backlog, None for
    whoever needs none. `is_snapshotting` says that the tables are still being copied, at
    `position`, and `rows` what is committed of them so far: from there nobody can go on.
    `snapshots` are those that are under way, by their ids, and `refreshes` counts what
    was published of them, and told, at this very position. `rereads` has by table what
    is to be read again, and no snapshot was asked for yet.
    """

    position: Position
    epoch: int
    timestamp_ms: int
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stopped: Mapping[str, StoppedTable] = field(default_factory=dict)
    server: str = ""
    publish_token: PublishToken | None = None
    is_snapshotting: bool = False
    snapshots: Mapping[str, SnapshotProgress] = field(default_factory=dict)
    refreshes: int = 0
    rereads: Mapping[str, Reread] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            **self.position.to_mapping(),
            "epoch": self.epoch,
            "timestamp_ms": self.timestamp_ms,
            "rows": {table: list(counted) for table, counted in self.rows.items()},
            "stopped": {
                table: {"position": why.position, "error": why.error, "hint": why.hint}
                for table, why in self.stopped.items()
            },
            **({"server": self.server} if self.server else {}),
            **({} if self.publish_token is None else {"turn": asdict(self.publish_token)}),
            **({"copying": True} if self.is_snapshotting else {}),
            **({"snapshots": {id_: s.to_mapping() for id_, s in self.snapshots.items()}} if self.snapshots else {}),
            **({"refreshes": self.refreshes} if self.refreshes else {}),
            **({"rereads": {table: r.to_mapping() for table, r in self.rereads.items()}} if self.rereads else {}),
        }

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> CaptureRecord:
        """Read a record back; KeyError or ValueError if it is not one of ours."""
        rows, stopped = record["rows"], record["stopped"]
        epoch, timestamp_ms = record["epoch"], record["timestamp_ms"]
        if not (isinstance(rows, dict) and isinstance(stopped, dict)):
            message = "a position record without its tables"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            position=position_from_mapping(record),
            epoch=int(str(epoch)),
            timestamp_ms=int(str(timestamp_ms)),
            rows={table: (counted[0], counted[1]) for table, counted in rows.items()},
            stopped={table: StoppedTable(**why) for table, why in stopped.items()},
            server=str(record.get("server", "")),
            publish_token=_publish_token(record.get("turn")),
            is_snapshotting=record.get("copying") is True,
            snapshots=_snapshots(record.get("snapshots")),
            refreshes=int(str(record.get("refreshes", 0))),
            rereads=_rereads(record.get("rereads")),
        )


def _snapshots(fields: object) -> Mapping[str, SnapshotProgress]:
    if not isinstance(fields, dict):
        return {}
    return {str(id_): SnapshotProgress.from_mapping(progress) for id_, progress in fields.items()}


def _rereads(fields: object) -> Mapping[str, Reread]:
    if not isinstance(fields, dict):
        return {}
    return {str(table): Reread.from_mapping(reread) for table, reread in fields.items()}


def _publish_token(fields: object) -> PublishToken | None:
    return (
        PublishToken(fields["plan"], fields["number"], TokenState(fields["state"]))
        if isinstance(fields, dict)
        else None
    )


@dataclass(frozen=True, slots=True)
class Publication:
    """Messages of consecutive changes, those of a topic in their order, and what follows from them.

    `begin` is where the changes start in the log and `end` where they end. `parts`
    has by topic the keys of changed rows whose messages lack columns, and `rereads` by
    table the rows that changed with these and are not among them.
    """

    messages: Sequence[Messages]
    begin: Position
    end: Position
    timestamp_ms: int
    rows: Mapping[str, tuple[int, int]]
    parts: Mapping[str, Sequence[bytes | None]] = field(default_factory=dict)
    rereads: Mapping[str, Reread] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """How much memory the messages take, about."""
        return sum(part.size_bytes for part in self.messages)


def join(publications: Sequence[Publication]) -> Publication:
    """Make one of some that follow each other: they are published together."""
    first, *others = publications
    if not others:
        return first
    rows = first.rows
    for each in others:
        for table, (count, newest_ms) in each.rows.items():
            rows = count_rows(rows, table, count, newest_ms)
    messages = [part for each in publications for part in each.messages]
    parts: dict[str, list[bytes | None]] = defaultdict(list)
    for each in publications:
        for topic, keys in each.parts.items():
            parts[topic] += keys
    timestamp_ms = next((each.timestamp_ms for each in reversed(publications) if each.timestamp_ms), 0)
    rereads: dict[str, Reread] = {}
    for each in publications:
        rereads = join_rereads(rereads, each.rereads)
    return Publication(messages, first.begin, others[-1].end, timestamp_ms, rows, parts, rereads)


def join_rereads(some: Mapping[str, Reread], more: Mapping[str, Reread]) -> dict[str, Reread]:
    """What is to be read again by table, for both."""
    return {**some, **{table: some.get(table, Reread()) | reread for table, reread in more.items()}}


def merge_by_topic(messages: Iterable[Messages]) -> list[Messages]:
    """Join the messages of each topic and put them into log order."""
    by_topic: dict[str, list[Messages]] = defaultdict(list)
    for part in messages:
        by_topic[part.topic].append(part)
    return [_in_order(topic, parts) for topic, parts in by_topic.items()]


def _in_order(topic: str, parts: Sequence[Messages]) -> Messages:
    if len(parts) == 1:
        return parts[0]
    order = np.concatenate([part.order for part in parts])
    by_order = np.argsort(order, kind="stable")
    indices = pa.array(by_order, pa.int64())
    return Messages(
        topic=topic,
        keys=pa.concat_arrays([part.keys for part in parts]).take(indices),
        values=pa.concat_arrays([part.values for part in parts]).take(indices),
        order=order[by_order],
    )


def count_rows(
    counted: Mapping[str, tuple[int, int]], table: TableId | str, rows: int, timestamp_ms: int
) -> dict[str, tuple[int, int]]:
    """Add `rows` of `table` to what was counted before; the newest commit time wins."""
    before, newest = counted.get(str(table), (0, 0))
    return {**counted, str(table): (before + rows, max(newest, timestamp_ms))}
