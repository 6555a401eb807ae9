"""Files on a local folder or an S3 bucket, through obstore."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

from penstock.core.errors import SinkError, UnavailableError, UsageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

_RETRIES_MAX = 3
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_HTTP_STATUS = re.compile(r"status(?: code)?:? (\d{3})")
_DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_ASK_AGAIN = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class ObjectsSpec:
    """Where files go: `file:///folder` or `s3://bucket/prefix`. It travels; the store it opens does not.

    `endpoint` is an S3 server other than Amazon's. With empty keys, S3 access
    comes from the environment, as every AWS tool reads it.
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
    cannot be made. Nothing is asked of an S3 server yet.
    """
    parts = urlsplit(spec.url)
    match parts.scheme:
        case "file":
            return _open_local(Path(unquote(parts.path)), spec)
        case "s3":
            return Objects(spec, _s3_store(spec, parts.netloc, parts.path.strip("/")), None)
        case _:
            message = f"files cannot be kept at {spec.url}"
            raise UsageError(message, "give objects.url as file:///folder or s3://bucket/prefix")


class Objects:
    """An open store. It implements the port `ObjectStore`, and may be used by several threads."""

    def __init__(self, spec: ObjectsSpec, store: LocalStore | S3Store, folder: Path | None) -> None:
        """Wrap an obstore store; call `open_objects` instead."""
        self._spec = spec
        self._store = store
        self._folder = folder

    def put(self, key: str, content: bytes) -> None:
        """Write a file: locally under a passing name and then renamed, on S3 in one request."""
        try:
            obstore.put(self._store, key, content, use_multipart=False)
        except (BaseError, OSError, ValueError) as error:
            raise _explain(self._spec, "write", key, error) from error

    def get(self, key: str) -> bytes:
        """Read a whole file; SinkError if there is none."""
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except (BaseError, OSError, ValueError) as error:
            raise _explain(self._spec, "read", key, error) from error

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        except (BaseError, OSError, ValueError) as error:
            raise _explain(self._spec, "look for", key, error) from error
        return True

    def list(self, prefix: str) -> list[str]:
        """Every key in the folder `prefix` and below it, sorted."""
        try:
            return sorted(entry["path"] for page in obstore.list(self._store, prefix) for entry in page)
        except (BaseError, OSError, ValueError) as error:
            raise _explain(self._spec, "list", prefix, error) from error

    def local_path(self, key: str) -> str | None:
        """Where the file is on this machine's disk; None on S3."""
        return str(self._folder / key) if self._folder else None


def _open_local(folder: Path, spec: ObjectsSpec) -> Objects:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Objects(spec, LocalStore(prefix=folder), folder)
    except (BaseError, OSError) as error:
        raise _explain(spec, "open", "", error) from error


def _s3_store(spec: ObjectsSpec, bucket: str, prefix: str) -> S3Store:
    client: ClientConfig = {
        "timeout": f"{spec.timeout_seconds}s",
        "connect_timeout": f"{min(spec.timeout_seconds, 5.0)}s",
        "allow_http": spec.endpoint.startswith("http://"),
    }
    retry: RetryConfig = {"max_retries": _RETRIES_MAX, "retry_timeout": timedelta(seconds=spec.timeout_seconds)}
    config: S3Config = {"region": spec.region}
    if spec.endpoint:
        config["endpoint"] = spec.endpoint
    if spec.access_key_id:
        config["access_key_id"] = spec.access_key_id
        config["secret_access_key"] = spec.secret_access_key
    return S3Store(bucket, prefix=prefix or None, config=config, client_options=client, retry_config=retry)


def _explain(spec: ObjectsSpec, verb: str, key: str, error: Exception) -> SinkError | UnavailableError:
    """Name the file and the cause, and say whether it is worth another try."""
    cause = str(error).partition("\n\nDebug source")[0]
    what = f"cannot {verb} {key or 'files'} at {spec.url}: {cause}"
    if _disk_is_full(error, cause):
        return SinkError(what, "free some space on that disk; nothing was written half, a rerun goes on from here")
    if isinstance(error, FileNotFoundError):
        return SinkError(what, "the file is gone: restore it, or have the table copied again")
    if isinstance(error, PermissionError | PermissionDeniedError | UnauthenticatedError):
        return SinkError(what, "check the folder's owner, or the keys and the bucket's policy")
    if spec.url.startswith("s3:") and _may_pass(cause):
        return UnavailableError(what, f"check that {spec.endpoint or 'S3'} runs and can be reached")
    return SinkError(what, "check objects.url and that the place exists and may be written to")


def _disk_is_full(error: Exception, cause: str) -> bool:
    number = error.errno if isinstance(error, OSError) else None
    named = _OS_ERROR.search(cause)
    return number in _DISK_IS_FULL or (named is not None and int(named[1]) in _DISK_IS_FULL)


def _may_pass(cause: str) -> bool:
    status = _HTTP_STATUS.search(cause)
    return status is None or int(status[1]) in _ASK_AGAIN
