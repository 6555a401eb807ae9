"""The schemas topic: what a capture tells the rest of the pipeline about its tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from penstock.core.tables import TableId

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Announcement:
    """From `order` in the source's log on, `table` has the schema `value_schema_id` and lives in `topic`.

    It is committed in the same Kafka transaction as the position it was made at,
    before the first change that has the schema. `order` is the (file number,
    offset, row) of the statement. `follows` is the topic that `topic` took over
    from, "" if it is the table's first.
    """

    source: str
    table: TableId
    topic: str
    follows: str
    key_schema_id: int | None
    value_schema_id: int
    partitions: int
    order: tuple[int, int, int]

    def to_json(self) -> bytes:
        """The message as it stands in the schemas topic."""
        return json.dumps({"version": _VERSION, **asdict(self), "table": str(self.table)}).encode()

    @classmethod
    def from_json(cls, message: bytes) -> Announcement:
        """Read a message of the schemas topic; ValueError for a version we do not know."""
        fields = json.loads(message)
        version = fields.pop("version", None)
        if version != _VERSION:
            text = f"schema announcement of version {version}; this release reads version {_VERSION}"
            raise ValueError(text)
        fields["table"] = TableId.parse(fields["table"])
        fields["order"] = tuple(fields["order"])
        return cls(**fields)
