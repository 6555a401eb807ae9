"""The S3 spolt's position record: how far every topic partition is in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[int, int]
"""(end offset of the newest batch, first offset that was not read): control records lie between the two."""


@dataclass(frozen=True, slots=True)
class ObjectsRecord:
    """Committed with the batch messages it covers.

    `places` has every (topic, partition) that was read. Announcements before
    `schemas_offset` were passed on, and behind it those whose offset is in
    `passed`: a table that waits for its rows keeps no other back. `rows` counts
    what this one transaction added: table to (rows, newest commit time in Unix ms).
    """

    schemas_offset: int = 0
    places: Mapping[tuple[str, int], Place] = field(default_factory=dict)
    epoch: int = 0
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    passed: tuple[int, ...] = ()

    def to_mapping(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "schemas_offset": self.schemas_offset,
            "places": [[topic, partition, *place] for (topic, partition), place in self.places.items()],
            "epoch": self.epoch,
            "rows": {table: list(counted) for table, counted in self.rows.items()},
            "passed": list(self.passed),
        }

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> ObjectsRecord:
        """Read a record back, one without `passed` too; KeyError or ValueError if it is not one of ours."""
        places, rows, passed = record["places"], record["rows"], record.get("passed", [])
        if not (isinstance(places, list) and isinstance(rows, dict) and isinstance(passed, list)):
            message = "a position record without its places"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            schemas_offset=int(str(record["schemas_offset"])),
            places={(topic, partition): (batched, read) for topic, partition, batched, read in places},
            epoch=int(str(record["epoch"])),
            rows={table: (counted[0], counted[1]) for table, counted in rows.items()},
            passed=tuple(passed),
        )
