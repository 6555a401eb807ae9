"""What becomes of a row that is larger than its topic takes, before a broker refuses it and the whole capture stops.

Its table stops; or, with `large_values: objects`, its message is kept in the object store, and the topic
says where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.core.changes import Messages
from penstock.core.errors import READ_AGAIN, SinkError, TableStoppedError
from penstock.core.kafka.largest import ASKED_BYTES, LARGEST_BYTES, largest_of, too_large
from penstock.links.large_messages import LARGEST_OBJECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.tables import TableId
    from penstock.links.capture.table_catalog import TableCatalog

_AROUND_BYTES: Final = 4096
"""What a batch of one message has beside the value: its head and a key."""


def as_sendable(catalog: TableCatalog, table: TableId, encoded: Iterable[Messages], position: str) -> list[Messages]:
    """Return messages of `table` that their topics take.

    Raises TableStoppedError for a row that its topic does not take, and that the object store
    is not to keep or refuses, and UnavailableError while the store is away.
    """
    return [_sendable(catalog, table, messages, position) for messages in encoded]


def _sendable(catalog: TableCatalog, table: TableId, messages: Messages, position: str) -> Messages:
    # What a topic takes is asked for large messages only.
    if largest_of(messages) <= ASKED_BYTES:
        return messages
    takes = catalog.message_bytes_max(messages.topic)
    large = too_large(messages, min(takes, LARGEST_BYTES) - _AROUND_BYTES)
    if not large:
        return messages
    keys, values = messages.lists()
    kept = list(values)
    for index in large:
        content = values[index] or b""
        if catalog.large_messages is None or len(content) > LARGEST_OBJECT_BYTES:
            raise _stopped(catalog, table, position, (messages.topic, len(content), takes))
        try:
            kept[index] = catalog.large_messages.keep(messages.topic, content)
        except SinkError as error:
            reason = f"a change of it is a message of {len(content):,} bytes, which cannot be kept: {error.message}"
            raise TableStoppedError(str(table), "", position, reason, f"{error.hint}; then {READ_AGAIN}") from error
    columns = pa.array(keys, pa.binary()), pa.array(kept, pa.binary())
    return Messages(messages.topic, *columns, messages.order, messages.partition_hints, messages.headers)


def _stopped(catalog: TableCatalog, table: TableId, position: str, sizes: tuple[str, int, int]) -> TableStoppedError:
    topic, size, takes = sizes
    reason = f"a change of it is a message of {size:,} bytes, and topic {topic} takes {takes:,}"
    ways = [f"raise max.message.bytes of {topic} (kafka-configs.sh --alter --add-config max.message.bytes={2 * size})"]
    if size > LARGEST_BYTES - _AROUND_BYTES:
        reason = f"a change of it is a message of {size:,} bytes, and brokers take {LARGEST_BYTES:,} at most"
        ways = ["keep such values elsewhere, and make the row smaller"]
    if size > LARGEST_OBJECT_BYTES:
        reason = f"a change of it is a message of {size:,} bytes, and {LARGEST_OBJECT_BYTES:,} are the most"
    elif catalog.format == "avro":
        ways.append(f"write `large_values: objects` into the file, at the source {catalog.source}")
    hint = f'{", or ".join(ways)}; then {READ_AGAIN}; or leave it out with "!{table}"'
    return TableStoppedError(str(table), "", position, reason, hint)
