"""Stops a table whose row is larger than its topic takes, before a broker refuses it and the whole capture stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.kafka.largest import ASKED_BYTES, LARGEST_BYTES, largest_of, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.changes import Messages
    from penstock.core.tables import TableId

_AROUND_BYTES: Final = 4096
"""What a batch of one message has beside the value: its head and a key."""


def require_sendable(
    table: TableId, encoded: Sequence[Messages], position: str, message_bytes_max: Callable[[str], int]
) -> None:
    """Raise TableStoppedError for a row of `table` that its topic does not take.

    `message_bytes_max` tells what a topic takes; it is asked for large messages only.
    """
    for messages in encoded:
        if largest_of(messages) <= ASKED_BYTES:
            continue
        takes = message_bytes_max(messages.topic)
        size = too_large(messages, min(takes, LARGEST_BYTES) - _AROUND_BYTES)
        if size:
            raise _stopped(table, messages.topic, position, size, takes)


def _stopped(table: TableId, topic: str, position: str, size: int, takes: int) -> TableStoppedError:
    reason = f"a change of it is a message of {size:,} bytes, and topic {topic} takes {takes:,}"
    enlarge = f"raise max.message.bytes of {topic} (kafka-configs.sh --alter --add-config max.message.bytes={2 * size})"
    if size > LARGEST_BYTES - _AROUND_BYTES:
        reason = f"a change of it is a message of {size:,} bytes, and brokers take {LARGEST_BYTES:,} at most"
        enlarge = "keep such values elsewhere, make the row smaller"
    hint = f'{enlarge}, then {READ_AGAIN}; or leave it out with "!{table}"'
    return TableStoppedError(str(table), "", position, reason, hint)
