"""Writing the manifest of a load where the target's COPY will read it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from penstock.core.warehouse.manifest import manifest_key, plan_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.batches import Batch
    from penstock.ports.objects import ObjectStore

_TOKEN_BYTES = 8


def write_manifest(
    objects: ObjectStore, store_url: str, pipeline: str, sink: str, batches: Sequence[Batch]
) -> tuple[str, int]:
    """Write a manifest of the files of `batches` for one attempt to load them; return its URL and their rows.

    Call it before the load's transaction. A manifest whose load never came to an
    end harms nobody; retention deletes them all as it deletes files. Raises
    ValueError for files that are not written alike, SinkError or UnavailableError
    where the store refuses.
    """
    manifest = plan_manifest(store_url, batches)
    key = manifest_key(pipeline, sink, manifest, (time.time_ns() // 1_000_000, secrets.token_hex(_TOKEN_BYTES)))
    objects.put(key, manifest.content)
    return f"{store_url}/{key}", manifest.rows
