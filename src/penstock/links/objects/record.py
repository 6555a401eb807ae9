"""The S3 spolt's position record: how far every topic partition is in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[int, int]
"""(end offset of the newest batch, first offset that was not read): control records lie between the two."""


@dataclass(frozen=True, slots=True)
class StoppedReading:
    """Nothing more of the `table` of `source` is read, until it begins anew: why, and what to do.

    `offset` is that of the message that cannot be read, -1 where another table's was. `is_gone`
    says that the table was dropped, or got another name, since.
    """

    source: str
    table: str
    error: str
    hint: str
    offset: int = -1
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class ObjectsRecord:
    """Committed with the batch messages it covers.

    `places` has every (topic, partition) that was read. Schema-change events before
    `schemas_offset` were passed on, and behind it those whose offset is in
    `passed`: a table that waits for its rows keeps no other back. `rows` counts
    what this one transaction added: table to (rows, newest commit time in Unix ms).
    `message_bytes` is the average size of a message of each topic, as last read.

    `stopped` has the places at whose first unread message reading has ended, or whose table
    got rows of one that had stopped. Topics in `left` are read no more: their table begins
    anew in another one.

    Files of batch messages before `files_from` (offsets of the batch topic) may be
    deleted, and no target starts before it; those before `deleted_to` are. Of tables that no
    snapshot could fill only those before `kept_from` are, which an older release deleted.
    Batch messages before `batches_from` may be thrown away: each is of a file that is deleted, or
    announces what the schemas topic tells, too. It is never behind `deleted_to`.
    """

    schemas_offset: int = 0
    places: Mapping[tuple[str, int], Place] = field(default_factory=dict)
    epoch: int = 0
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    passed: tuple[int, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    message_bytes: Mapping[str, int] = field(default_factory=dict)
    files_from: int = 0
    deleted_to: int = 0
    kept_from: int = 0
    batches_from: int = 0
    stopped: Mapping[tuple[str, int], StoppedReading] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    @property
    def told_to(self) -> int:
        """Behind the last schema-change event that was passed on, or was looked past."""
        return max([self.schemas_offset, *(offset + 1 for offset in self.passed)])

    def has_passed(self, offset: int) -> bool:
        """Whether the schema-change event at `offset` was passed on."""
        return offset < self.schemas_offset or offset in self.passed

    def reads(self, source: str, table: str, topic: str) -> bool:
        """Whether messages in a topic of a table are read: neither is it stopped, nor has it begun anew elsewhere."""
        return topic not in self.left and not any((w.source, w.table) == (source, table) for w in self.stopped.values())

    def stopped_tables(self) -> Mapping[tuple[str, str], StoppedReading]:
        """Why each (source, table) is not read."""
        return {(each.source, each.table): each for each in self.stopped.values()}

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "schemas_offset": self.schemas_offset,
            "places": [[topic, partition, *place] for (topic, partition), place in self.places.items()],
            "epoch": self.epoch,
            "rows": {table: list(counted) for table, counted in self.rows.items()},
            "passed": list(self.passed),
            "ids": dict(self.ids),
            "reached": [[topic, partition, *order] for (topic, partition), order in self.reached.items()],
            "message_bytes": dict(self.message_bytes),
            "files_from": self.files_from,
            "deleted_to": self.deleted_to,
            "kept_from": self.kept_from,
            "batches_from": self.batches_from,
            **({"stopped": [[*place, asdict(why)] for place, why in self.stopped.items()]} if self.stopped else {}),
            **({"left": list(self.left)} if self.left else {}),
        }

    @classmethod
    def of(cls, record: Mapping[str, object] | None) -> ObjectsRecord:
        """The record of a link, which has none before its first commit. Raises as `from_mapping`."""
        return cls() if record is None else cls.from_mapping(record)

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> ObjectsRecord:
        """Read a record back, one of an older release too; KeyError or ValueError if it is not one of ours."""
        places, rows, passed = record["places"], record["rows"], record.get("passed", [])
        ids, reached = record.get("ids", {}), record.get("reached", [])
        if not (isinstance(places, list) and isinstance(rows, dict) and isinstance(passed, list)):
            message = "a position record without its places"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        message_bytes = record.get("message_bytes", {})
        stopped, left = record.get("stopped", []), record.get("left", [])
        if not (isinstance(stopped, list) and isinstance(left, list)):
            message = "a position record whose stopped tables cannot be read"
            raise ValueError(message)  # noqa: TRY004 - as above
        if not (isinstance(ids, dict) and isinstance(reached, list) and isinstance(message_bytes, dict)):
            message = "a position record whose topics cannot be read"
            raise ValueError(message)  # noqa: TRY004 - as above
        return cls(
            schemas_offset=int(str(record["schemas_offset"])),
            places={(topic, partition): (batched, read) for topic, partition, batched, read in places},
            epoch=int(str(record["epoch"])),
            rows={table: (counted[0], counted[1]) for table, counted in rows.items()},
            passed=tuple(passed),
            ids={str(topic): str(topic_id) for topic, topic_id in ids.items()},
            reached={(topic, partition): (file, offset, row) for topic, partition, file, offset, row in reached},
            message_bytes={str(topic): int(size) for topic, size in message_bytes.items()},
            files_from=int(str(record.get("files_from", 0))),
            deleted_to=int(str(record.get("deleted_to", 0))),
            kept_from=int(str(record.get("kept_from", record.get("files_from", 0)))),
            batches_from=int(str(record.get("batches_from", 0))),
            stopped={(topic, partition): StoppedReading(**why) for topic, partition, why in stopped},
            left=tuple(left),
        )
