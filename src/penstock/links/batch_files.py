"""The file of a batch: in the object store, or in the batch message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.batches import Batch
    from penstock.ports.objects import ObjectStore


def read_content(objects: ObjectStore, batch: Batch) -> bytes:
    """Return the bytes of the file of `batch`, which has rows. Raises what the store raises."""
    return objects.get(batch.path) if batch.content is None else batch.content
