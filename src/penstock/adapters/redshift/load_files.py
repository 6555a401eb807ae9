"""What COPY is given to read: a manifest of batch files, or of a file with rows that were made for one load."""

from __future__ import annotations

import gzip
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.core.csv_dialect import CsvDialect, render_csv
from penstock.core.errors import PenstockError
from penstock.core.warehouse.manifest import manifest_key, plan_manifest, plan_rows_manifest, rows_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.ports.objects import ObjectStore

_TOKEN_BYTES = 8
_GZIP_LEVEL = 1
ROWS_COMPRESSION = "gzip"


def write_manifest(
    objects: ObjectStore, store_url: str, pipeline: str, sink: str, batches: Sequence[Batch]
) -> tuple[str, int]:
    """Write a manifest of the files of `batches` for one attempt to load them; return its URL and their rows.

    A manifest whose load never came to an end harms nobody; retention deletes them
    all as it deletes files. Raises ValueError for files that are not written alike,
    SinkError or UnavailableError where the store refuses.
    """
    manifest = plan_manifest(store_url, batches)
    key = manifest_key(pipeline, sink, manifest, _attempt())
    objects.put(key, manifest.content)
    return f"{store_url}/{key}", manifest.rows


@contextmanager
def written_rows(
    objects: ObjectStore, store_url: str, pipeline: str, sink: str, rows: pa.Table
) -> Iterator[tuple[str, CsvDialect]]:
    """Write `rows` as a file that is gone at the end; the URL of its manifest, and how to read it.

    Raises SinkError or UnavailableError where the store refuses.
    """
    text, dialect = render_csv(rows)
    content = gzip.compress(memoryview(text), _GZIP_LEVEL, mtime=0)
    attempt = _attempt()
    file = rows_key(pipeline, sink, attempt)
    manifest = plan_rows_manifest(f"{store_url}/{file}", len(content), rows.num_rows)
    key = manifest_key(pipeline, sink, manifest, attempt)
    try:
        objects.put(file, content)
        objects.put(key, manifest.content)
        yield f"{store_url}/{key}", dialect
    finally:
        # What stays is deleted as old manifests are.
        with suppress(PenstockError):
            objects.delete([file, key])


def _attempt() -> tuple[int, str]:
    return time.time_ns() // 1_000_000, secrets.token_hex(_TOKEN_BYTES)
