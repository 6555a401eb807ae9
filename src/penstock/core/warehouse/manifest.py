"""The manifest of a load: which files a COPY is to read, all of them and no others.

Its form is Redshift's ("Using a manifest to specify data files" of the Database
Developer Guide): an entry has the file's URL, that it must be there, and how many
bytes it has. The same batches give the same bytes; every attempt has a key of
its own, so that no store or cache can give one attempt the manifest of another.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.files import key_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.batches import Batch

_FOLDER = "manifests"
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of some batches of one table, in order. `content` is its JSON; `rows` is what a COPY must load."""

    content: bytes
    rows: int

    @property
    def digest(self) -> str:
        """What tells the files of two manifests apart, in hex."""
        return hashlib.sha256(self.content).hexdigest()[:_DIGEST_LENGTH]


def plan_manifest(store_url: str, batches: Sequence[Batch]) -> Manifest:
    """Return the manifest of the files of `batches`, whose keys are below `store_url`; schema-change events have none.

    Raises ValueError for files that one COPY cannot read: of several formats,
    compressions or CSV dialects.
    """
    files = [batch for batch in batches if batch.path]
    kinds = {(batch.format, batch.compression, batch.dialect) for batch in files}
    if len(kinds) > 1:
        told = ", ".join(sorted(f"{name} {compression} {dialect}" for name, compression, dialect in kinds))
        message = f"the files of one manifest must be written alike: {told}"
        raise ValueError(message)
    return _of_files([(f"{store_url}/{batch.path}", batch.size_bytes, batch.rows) for batch in files])


def plan_rows_manifest(url: str, size_bytes: int, rows: int) -> Manifest:
    """Return the manifest of one file that was made for this load."""
    return _of_files([(url, size_bytes, rows)])


def manifest_folder(pipeline: str) -> str:
    """Return where the manifests of a pipeline are kept, apart from the files of its sources."""
    return f"{key_folder(pipeline)}/{_FOLDER}"


def manifest_key(pipeline: str, sink: str, manifest: Manifest, attempt: tuple[int, str]) -> str:
    """Return the key of a manifest of one `attempt` to load a sink: the moment in Unix ms, and something random."""
    now_ms, token = attempt
    return f"{manifest_folder(pipeline)}/{key_folder(sink)}/{now_ms:013d}-{manifest.digest}-{token}.json"


def rows_key(pipeline: str, sink: str, attempt: tuple[int, str]) -> str:
    """Return the key of a CSV file of rows that one `attempt` to load a sink needs."""
    now_ms, token = attempt
    return f"{manifest_folder(pipeline)}/{key_folder(sink)}/{now_ms:013d}-{token}.csv.gz"


def manifest_written_at(key: str) -> int:
    """Return when a manifest or a file of rows was written, in Unix ms, from its key; ValueError for another key."""
    return int(key.rpartition("/")[2].partition("-")[0])


def _of_files(files: Sequence[tuple[str, int, int]]) -> Manifest:
    """Return the manifest of files: URL, bytes, rows."""
    entries = [{"url": url, "mandatory": True, "meta": {"content_length": size}} for url, size, _ in files]
    return Manifest(json.dumps({"entries": entries}, indent=1).encode(), sum(rows for *_, rows in files))
