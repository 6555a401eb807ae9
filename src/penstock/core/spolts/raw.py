"""Messages as Kafka holds them, and what becomes of one that no spolt could process."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from penstock.core.topic_fingerprints import PARSE_ERRORS

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

_PREFIX: Final = "penstock."
_ORIGIN: Final = "penstock.origin"
_SPOLT: Final = "penstock.spolt"
_ERROR: Final = "penstock.error"
_FAILED_AT: Final = "penstock.failed_at_ms"
_ERROR_CHARACTERS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message as it is in `topic`: bytes, or None for no key, or for a tombstone. `timestamp_ms` is Kafka's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> str:
        """`topic/partition offset 17`, as errors write it."""
        return f"{self.topic}/{self.partition} offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that `spolt` could not process, why, and when (Unix ms)."""

    message: RawMessage
    spolt: str
    error: str
    failed_at_ms: int

    def headers(self) -> Headers:
        """What a dead letter says beside the message's own key, value and headers.

        `penstock.origin` is JSON: topic, partition, offset and timestamp_ms of the
        message. A header of a message that is called like one of ours is left out.
        """
        message = self.message
        origin = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp_ms": message.timestamp_ms,
        }
        kept = tuple(header for header in message.headers if not header[0].startswith(_PREFIX))
        error = self.error[:_ERROR_CHARACTERS_MAX].encode("utf-8", "backslashreplace")
        return (
            *kept,
            (_ORIGIN, json.dumps(origin).encode()),
            (_SPOLT, self.spolt.encode()),
            (_ERROR, error),
            (_FAILED_AT, str(self.failed_at_ms).encode()),
        )

    @classmethod
    def read(cls, found: RawMessage) -> Letter:
        """Read a message of a topic of dead letters; ValueError if it is none of ours."""
        own = {name: content for name, content in found.headers if name.startswith(_PREFIX)}
        rest = tuple(header for header in found.headers if not header[0].startswith(_PREFIX))
        try:
            origin = json.loads(own[_ORIGIN])
            message = replace(
                found,
                topic=str(origin["topic"]),
                partition=int(origin["partition"]),
                offset=int(origin["offset"]),
                timestamp_ms=int(origin["timestamp_ms"]),
                headers=rest,
            )
            return cls(message, own[_SPOLT].decode(), own[_ERROR].decode(), int(own[_FAILED_AT]))
        except PARSE_ERRORS as error:
            text = f"{found.place} is no dead letter of Penstock's ({type(error).__name__}: {error})"
            raise ValueError(text) from error
