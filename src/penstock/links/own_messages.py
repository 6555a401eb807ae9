"""Tells the messages that a link writes from others that are in its topics (ports/publisher.MessageCheck)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.avro.schemas import table_schema
from penstock.core.batches import Batch
from penstock.core.errors import CorruptLogError, PenstockError
from penstock.core.large_messages import is_large, read_large
from penstock.core.message_format import decode_changes, schema_ids
from penstock.core.positions import file_number, read_file_number
from penstock.core.publication import CaptureRecord
from penstock.core.schema_changes import SchemaChange
from penstock.core.timelines import TimelineBegan
from penstock.core.topic_fingerprints import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.changes import MessageFormat


class CaptureMessages:
    """What the capture of one source writes: changes, and what it tells of them in topics that all captures share."""

    def __init__(
        self,
        source: str,
        schemas_topic: str,
        timelines_topic: str,
        large_folder: str,
        value_schema: Callable[[int], str],
        message_format: MessageFormat,
    ) -> None:
        """Know schemas by `value_schema` (ports/registry.Registry), which is asked only where something is wrong.

        Large messages are in `large_folder` of the object store, which is not asked for them.
        """
        self._large_folder = large_folder
        self._source = source
        self._has_tombstones = message_format == "json"
        self._told: dict[str, tuple[Callable[[bytes], object], str]] = {
            schemas_topic: (SchemaChange.from_json, "schema-change event"),
            timelines_topic: (TimelineBegan.from_json, "timeline"),
        }
        self._value_schema = value_schema

    def is_shared(self, topic: str) -> bool:
        """See ports/publisher.MessageCheck."""
        return topic in self._told

    def is_of_one_table(self, topic: str) -> bool:
        """See ports/publisher.MessageCheck."""
        return not self.is_shared(topic)

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:
        """See ports/publisher.MessageCheck. Raises UnavailableError while the registry is away."""
        if topic in self._told:
            return _json_fault(value, *self._told[topic])
        if value is None and self._has_tombstones:
            return ""
        if value is not None and is_large(value):
            return _large_fault(value, self._large_folder)
        fault, changes = read_change(value, self._source, self._value_schema)
        if changes is None:
            return fault
        here = CaptureRecord.from_mapping(record).position
        file, offset = str(changes.file[0]), int(changes.pos[0])
        # Behind a failover, the places of what came before it say nothing about ours.
        if not here.timeline and (file_number(file), offset) > here.reach:
            return f"it is of {file}:{offset}, and this capture stands at {here}"
        return ""


class JoinMessages:
    """What a join writes: changes of its output, dead letters, and schema-change events beside those of captures."""

    def __init__(self, join: str, schemas_topic: str, letters_topic: str, value_schema: Callable[[int], str]) -> None:
        """Know schemas by `value_schema`, as CaptureMessages does."""
        self._join = join
        self._schemas_topic = schemas_topic
        self._letters_topic = letters_topic
        self._value_schema = value_schema

    def is_shared(self, topic: str) -> bool:
        """See ports/publisher.MessageCheck."""
        return topic == self._schemas_topic

    def is_of_one_table(self, topic: str) -> bool:
        """See ports/publisher.MessageCheck: its output is."""
        return topic not in {self._schemas_topic, self._letters_topic}

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:  # noqa: ARG002 - the port's
        """See ports/publisher.MessageCheck. Raises UnavailableError while the registry is away."""
        if topic == self._schemas_topic:
            return _json_fault(value, SchemaChange.from_json, "schema-change event")
        if topic == self._letters_topic:
            return ""
        return read_change(value, self._join, self._value_schema)[0]


class BatchMessages:
    """What the S3 spolt writes: batch messages."""

    def is_shared(self, topic: str) -> bool:  # noqa: ARG002 - the port's name
        """See ports/publisher.MessageCheck: nobody else writes there."""
        return False

    def is_of_one_table(self, topic: str) -> bool:  # noqa: ARG002 - as above
        """See ports/publisher.MessageCheck: batch messages are of all tables."""
        return False

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:  # noqa: ARG002 - as above
        """See ports/publisher.MessageCheck."""
        return _json_fault(value, Batch.from_json, "batch message")


class SpoltMessages:
    """What a spolt writes: its dead letters, which nobody else writes, and messages of user code in any topic."""

    def __init__(self, letters_topic: str) -> None:
        """Know where the dead letters are."""
        self._letters_topic = letters_topic

    def is_shared(self, topic: str) -> bool:
        """See ports/publisher.MessageCheck: several spolts may write to a topic, replays and others too."""
        return topic != self._letters_topic

    def is_of_one_table(self, topic: str) -> bool:  # noqa: ARG002 - the port's name
        """See ports/publisher.MessageCheck: dead letters are of all inputs."""
        return False

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:  # noqa: ARG002 - the port's
        """See ports/publisher.MessageCheck: a dead letter may be of any bytes."""
        return ""


def read_change(
    value: bytes | None, source: str, value_schema: Callable[[int], str]
) -> tuple[str, DecodedChanges | None]:
    """Decode one message of a capture of `source`: why it cannot be one, or "" and the change."""
    if value is None:
        return "it is a tombstone, and Penstock writes none", None
    try:
        message = pa.array([value], pa.binary())
        text = value_schema(int(schema_ids(message)[0]))
        changes = decode_changes(table_schema(text), text, message)
        read_file_number(str(changes.file[0]))
    except PenstockError as error:
        if error.retryable:
            raise
        return error.message, None
    name = str(changes.source[0])
    return ("", changes) if name == source else (f"it is of source {name!r}, not of {source!r}", None)


def _large_fault(value: bytes, folder: str) -> str:
    try:
        key = read_large(value).key
    except CorruptLogError as error:
        return error.message
    return "" if key.startswith(f"{folder}/") else f"it is at {key} of an object store, not in {folder}"


def _json_fault(value: bytes | None, parse: Callable[[bytes], object], what: str) -> str:
    try:
        parse(value or b"")
    except PARSE_ERRORS as error:
        return f"it is no {what} ({type(error).__name__}: {error})"
    return ""
