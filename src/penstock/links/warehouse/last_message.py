"""Whether the batch topic is still the one that a target has loaded from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.batches import BatchOffset
from penstock.core.errors import START_ANEW, PositionError

if TYPE_CHECKING:
    from penstock.core.batches import ReadBatches

_OLDER = "restore state, topics, files and targets of one moment together, or "


def require_loaded(link: str, loaded_to: int, read: ReadBatches, batches_from: int) -> None:
    """Raise PositionError unless the batch topic has the message before `loaded_to` that the target knows of.

    A Kafka that was restored from an older copy grows on, with other messages at the offsets that are lost, and of the
    rows there the target would take some for its own. Messages before `batches_from` may be gone, and tell nothing.
    """
    known = BatchOffset.of(loaded_to)
    if not known.message or known <= batches_from:
        return
    last = known - 1
    found = [BatchOffset.behind(*each).message for messages in read(last, known) for each in messages]
    if found != [known.message]:
        message = (
            f"the batch topic has another message at offset {last} than the one that the target of {link} has loaded, "
            "or none: Kafka is older than the target, or is another one"
        )
        raise PositionError(message, _OLDER + START_ANEW)
