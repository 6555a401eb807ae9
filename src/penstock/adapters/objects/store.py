"""Files on a local folder or in a bucket of S3, Google or Azure, through obstore."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from penstock.adapters.objects.clouds import Access, azure_store, gcs_store, s3_store
from penstock.adapters.objects.errors import explain, explain_opening, store_kind
from penstock.core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore.store import AzureStore, GCSStore, S3Store

    from penstock.core.errors import SinkError

_PIECE_BYTES_MIN = 1 << 20
_PAUSES_SECONDS = (0.1, 0.5, 1.0)
"""Before a deletion is begun again, once for each; none begins `timeout_seconds` after the first."""


@dataclass(frozen=True, slots=True)
class ObjectsSpec:
    """Where files go. It travels; the store it opens does not.

    `url` is file:///folder, s3://bucket/prefix, gs://bucket/prefix, or
    az://container/prefix (abfs:// and abfss:// too). `endpoint` is a server of S3's,
    Google's or Azure's protocol that is not theirs. With empty keys, access comes
    from the environment, as the tools of each store read it; that of Google and
    Azure always does.
    """

    url: str
    endpoint: str = ""
    region: str = "us-east-1"
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    timeout_seconds: float = 30.0


def open_objects(spec: ObjectsSpec) -> Objects:
    """Open the store of `spec`; a local folder is made if it is missing.

    Raises UsageError for a URL of another kind and SinkError for a folder that
    cannot be made, or credentials that are missing. No server is asked yet.
    """
    parts = urlsplit(spec.url)
    if parts.scheme == "file":
        return _open_local(Path(unquote(parts.path)), spec)
    try:
        return Objects(spec, _open_cloud(spec), None)
    except (BaseError, ValueError) as error:
        raise explain_opening(spec.url, error) from error


class Objects:
    """An open store. It implements the port `ObjectStore`, and may be used by several threads."""

    def __init__(
        self, spec: ObjectsSpec, store: LocalStore | S3Store | GCSStore | AzureStore, folder: Path | None
    ) -> None:
        """Wrap an obstore store; call `open_objects` instead."""
        self._spec = spec
        self._store = store
        self._folder = folder

    def put(self, key: str, content: bytes) -> None:
        """Write a file: locally under a passing name, then renamed and on the disk, elsewhere in one request."""
        try:
            obstore.put(self._store, key, content, use_multipart=False)
            if self._folder is not None:
                _flush(self._folder, key)
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "write", key) from error

    def get(self, key: str) -> bytes:
        """Read a whole file; SinkError if there is none."""
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "read", key) from error

    def pieces(self, key: str) -> Iterator[bytes]:
        """Yield a whole file piece by piece; SinkError if there is none."""
        try:
            for piece in obstore.get(self._store, key).stream(_PIECE_BYTES_MIN):
                yield bytes(piece)
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "read", key) from error

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "look for", key) from error
        return True

    def list(self, prefix: str) -> list[str]:
        """Every key in the folder `prefix` and below it, sorted."""
        return sorted(key for key, _ in self.written(prefix))

    def written(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield each file in the folder `prefix` and below it, and when it was written, in Unix ms."""
        try:
            for page in obstore.list(self._store, prefix):
                for entry in page:
                    yield entry["path"], int(entry["last_modified"].timestamp() * 1000)
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "list", prefix or "files") from error

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files; those that are gone already are no mistake.

        Deleting twice is deleting once. obstore does not know that, and begins no
        deletion again whose connection broke; so we do.
        """
        deadline = time.monotonic() + self._spec.timeout_seconds
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                self._delete_once(keys)
            except UnavailableError:
                if pause_seconds is None or time.monotonic() + pause_seconds > deadline:
                    raise
                time.sleep(pause_seconds)
            else:
                return

    def local_path(self, key: str) -> str | None:
        """Where the file is on this machine's disk; None for a store that is elsewhere."""
        return str(self._folder / key) if self._folder else None

    def _delete_once(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        try:
            obstore.delete(self._store, keys)
        except FileNotFoundError:
            # The first that is gone ends a deletion of several.
            for key in keys:
                self._delete_if_there(key)
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "delete", f"{len(keys)} files") from error

    def _delete_if_there(self, key: str) -> None:
        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error, "delete", key) from error

    def _explain(self, error: Exception, verb: str, what: str) -> SinkError | UnavailableError:
        return explain(self._spec.url, self._spec.endpoint, f"{verb} {what}", error)


def _flush(folder: Path, key: str) -> None:
    """Have a file survive a power cut, and its name, which is in the folders above it: a message will name it."""
    file = folder / key
    for path in (file, *(each for each in file.parents if each.is_relative_to(folder))):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_local(folder: Path, spec: ObjectsSpec) -> Objects:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Objects(spec, LocalStore(prefix=folder), folder)
    except (BaseError, OSError) as error:
        raise explain_opening(spec.url, error) from error


def _open_cloud(spec: ObjectsSpec) -> S3Store | GCSStore | AzureStore:
    access = Access(spec.endpoint, spec.region, spec.timeout_seconds)
    match store_kind(spec.url):
        case "s3":
            return s3_store(spec.url, access, (spec.access_key_id, spec.secret_access_key))
        case "gs":
            return gcs_store(spec.url, access)
        case "az":
            return azure_store(spec.url, access)
        case _:
            message = f"files cannot be kept at {spec.url}"
            raise UsageError(message, "give objects.url as file:///folder, s3://, gs:// or az:// with bucket/prefix")
