"""Files on S3 that COPY names: by a prefix, or in a manifest.

Source: Amazon Redshift Database Developer Guide, "Using a manifest to specify data files", "COPY from Amazon S3".
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from penstock.dev.redshift.errors import INTERNAL
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.redshift.cluster import S3Place

_CHUNK_BYTES = 1 << 20
_TIMEOUT = "60s"
_STORES_MAX = 32


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to load. `content_length` is what the manifest says, None if it says nothing."""

    bucket: str
    key: str
    mandatory: bool = True
    content_length: int | None = None

    @property
    def url(self) -> str:
        """Its name in messages and system tables."""
        return f"s3://{self.bucket}/{self.key}"


class Bucket:
    """The files of one bucket."""

    def __init__(self, place: S3Place, name: str) -> None:
        """Nothing is asked of the server yet."""
        self._name = name
        self._store = _open(place, name)

    def chunks(self, key: str) -> Iterator[bytes]:
        """A file's content in parts. RedshiftError where it cannot be read."""
        try:
            for chunk in obstore.get(self._store, key).stream(min_chunk_size=_CHUNK_BYTES):
                yield bytes(chunk)
        except (BaseError, OSError) as error:
            raise explain(error, f"s3://{self._name}/{key}") from error

    def size(self, key: str) -> int | None:
        """A file's size in bytes, None if there is none."""
        try:
            return obstore.head(self._store, key)["size"]
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise explain(error, f"s3://{self._name}/{key}") from error

    def beginning(self, prefix: str) -> list[str]:
        """The keys that begin so, in order, whatever stands behind."""
        folder = prefix.rpartition("/")[0]
        try:
            found = [entry["path"] for page in obstore.list(self._store, folder) for entry in page]
        except (BaseError, OSError) as error:
            raise explain(error, f"s3://{self._name}/{prefix}") from error
        return sorted(key for key in found if key.startswith(prefix))

    def put(self, key: str, content: bytes) -> None:
        """Write a file."""
        try:
            obstore.put(self._store, key, content)
        except (BaseError, OSError) as error:
            raise explain(error, f"s3://{self._name}/{key}") from error


@functools.lru_cache(_STORES_MAX)
def _open(place: S3Place, name: str) -> S3Store:
    """A bucket's store, which keeps its connections open."""
    return S3Store(
        name,
        endpoint=place.endpoint,
        region=place.region,
        access_key_id=place.access_key_id,
        secret_access_key=place.secret_access_key,
        client_options={"allow_http": True, "timeout": _TIMEOUT},
        retry_config={"max_retries": 2},
    )


def list_files(place: S3Place, bucket: str, key: str, *, manifest: bool) -> list[SourceFile]:
    """The files that a COPY is to load; RedshiftError where there are none, or a mandatory one is missing."""
    listed = _read_manifest(place, bucket, key) if manifest else _with_prefix(place, bucket, key)
    buckets = {name: Bucket(place, name) for name in {file.bucket for file in listed}}
    found = []
    for file in listed:
        # A file that must be there is found missing when it is read, before anything is committed.
        if file.mandatory and file.content_length is None:
            found.append(file)
            continue
        size = buckets[file.bucket].size(file.key)
        if size is None and file.mandatory:
            raise missing(file.url)
        if size is not None and file.content_length not in {None, size}:
            message = (
                f"content length of {file.url} in the manifest is {file.content_length}, the file has {size} bytes"
            )
            raise RedshiftError(INTERNAL, message)
        if size is not None:
            found.append(file)
    return found


def missing(url: str) -> RedshiftError:
    """A file that is not there."""
    detail = _detail("S3ServiceException:The specified key does not exist.,Status 404,Error NoSuchKey", url)
    return RedshiftError(INTERNAL, "S3ServiceException:The specified key does not exist.", detail)


def explain(error: Exception, url: str) -> RedshiftError:
    """What S3 said, in Redshift's words."""
    text = str(error)
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
        return missing(url)
    # Not any 403: a port and a request's id have digits, too.
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or re.search(r"\b403\b", text):
        code = next((each for each in ("InvalidAccessKeyId", "SignatureDoesNotMatch") if each in text), "AccessDenied")
        said = f"S3ServiceException:Access Denied,Status 403,Error {code}"
    elif "NoSuchBucket" in text or re.search(r"\b404\b", text):
        said = "S3ServiceException:The specified bucket does not exist,Status 404,Error NoSuchBucket"
    else:
        said = f"S3ServiceException:{text.splitlines()[0][:200]}"
    return RedshiftError(INTERNAL, said, _detail(said, url))


def _read_manifest(place: S3Place, bucket: str, key: str) -> list[SourceFile]:
    try:
        content = b"".join(Bucket(place, bucket).chunks(key))
        entries = json.loads(content)["entries"]
        return [_entry(entry) for entry in entries]
    except RedshiftError as error:
        error.message = f"Problem reading manifest file - {error.message}"
        raise
    except (ValueError, KeyError, TypeError) as error:
        message = f"Problem reading manifest file - s3://{bucket}/{key} is no manifest: {error!r}"
        raise RedshiftError(INTERNAL, message) from error


def _entry(entry: dict[str, object]) -> SourceFile:
    url = str(entry["url"])
    bucket, _, key = url.removeprefix("s3://").partition("/")
    meta = entry.get("meta")
    length = meta.get("content_length") if isinstance(meta, dict) else None
    return SourceFile(bucket, key, bool(entry.get("mandatory", False)), int(length) if length is not None else None)


def _with_prefix(place: S3Place, bucket: str, prefix: str) -> list[SourceFile]:
    keys = Bucket(place, bucket).beginning(prefix)
    if not keys:
        message = f"The specified S3 prefix '{prefix}' does not exist"
        raise RedshiftError(INTERNAL, message, _detail(message, f"s3://{bucket}/{prefix}"))
    return [SourceFile(bucket, key) for key in keys]


def _detail(said: str, url: str) -> str:
    line = "-----------------------------------------------"
    return f"\n  {line}\n  error:  {said}\n  code:      8001\n  context:   {url}\n  {line}"
