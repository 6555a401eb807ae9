"""What a store's error means, and what to do about it."""

from __future__ import annotations

import errno
import re
from typing import Final

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from penstock.core.errors import START_ANEW, SinkError, UnavailableError

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
# In brackets: what became of one file of a deletion of several. S3 says a code, Azure a status.
_HTTP_STATUS = re.compile(r"(?:status(?: code)?:?|\(code:) (\d{3})\b")
_CODE = re.compile(r"(?:<Code>|\(code: )([A-Za-z]\w*)[<)]")
_DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ASK_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_REFUSED = frozenset({"401", "403", "AccessDenied"})
_ANSWER = re.compile(r"(?:<\?xml[^>]*\?>\s*)?<Error>.*", re.DOTALL)
# Azure's goes on with an id and a time in lines of their own.
_MESSAGE = re.compile(r"<Message>([^<\n]*)")
_NO_KEYS = "token request"
"""Of a store that finds no keys in the environment, and asks the machine's cloud for some."""
_LENGTH_MAX = 500

_ENVIRONMENT: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where they are lent for a time, AWS_SESSION_TOKEN",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS (a file) or GOOGLE_SERVICE_ACCOUNT_KEY",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN",
}
_EXPIRED = frozenset({"ExpiredToken", "TokenRefreshRequired", "RequestExpired", "ExpiredAccessKey"})
_WRONG_KEY = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_NO_SPACE = frozenset({"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "AccountIsDisabled"})


def explain(url: str, endpoint: str, what: str, error: Exception) -> SinkError | UnavailableError:
    """Turn the error of an obstore call into ours. `what` was tried, such as `read shop/1.parquet`."""
    cause = _cause(error)
    message = f"cannot {what} at {url}: {_ANSWER.sub(_shorter, cause)[:_LENGTH_MAX]}"
    kind, status = store_kind(url), _HTTP_STATUS.search(cause)
    hint = _known_hint(kind, error, cause)
    if hint is None and kind != "file" and (status is None or int(status[1]) in _ASK_AGAIN):
        return UnavailableError(message, f"check that {endpoint or kind} runs and can be reached")
    return SinkError(message, hint or "check objects.url, and that the bucket or folder exists and may be written to")


def explain_opening(url: str, error: Exception) -> SinkError:
    """Turn the error of opening a store into ours. Nothing was asked yet: it is about the folder, or the keys."""
    kind, cause = store_kind(url), _cause(error)
    known = _known_hint(kind, error, cause) if kind == "file" else f"check {_ENVIRONMENT[kind]}, and objects.url"
    return SinkError(f"cannot open files at {url}: {cause[:_LENGTH_MAX]}", known or "check objects.url")


def _cause(error: Exception) -> str:
    return str(error).partition("\n\nDebug source")[0]


def _known_hint(kind: str, error: Exception, cause: str) -> str | None:
    """What to do about an error whose cause we know; None for others."""
    code, status = _CODE.search(cause), _HTTP_STATUS.search(cause)
    named = {found[1] for found in (code, status) if found}
    by_code = _by_code(kind, code[1] if code else "")
    if by_code is not None:
        return by_code
    if _disk_is_full(error, cause):
        return "free some space on that disk; nothing was written half, a rerun goes on from here"
    if isinstance(error, FileNotFoundError):
        return f"the file is gone: restore it, or {START_ANEW}"
    if kind == "file":
        return "check objects.url, and the folder's owner and rights"
    refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    if refused or named & _REFUSED or _NO_KEYS in cause:
        return f"check {_ENVIRONMENT[kind]}, and what they are allowed to do there"
    return None


def _shorter(answer: re.Match[str]) -> str:
    """Return the code and the text of a store's answer, without the ids of requests."""
    code, text = _CODE.search(answer[0]), _MESSAGE.search(answer[0])
    return ": ".join(found[1] for found in (code, text) if found)


def store_kind(url: str) -> str:
    """Which of "file", "s3", "gs" and "az" a URL leads to."""
    scheme = url.partition("://")[0]
    return {"abfs": "az", "abfss": "az"}.get(scheme, scheme)


def _by_code(kind: str, code: str) -> str | None:
    """What to do about an error that the store names; None for one that we do not know."""
    if code in _EXPIRED:
        return f"the credentials have expired: renew {_ENVIRONMENT[kind]}, and run again"
    if code in _WRONG_KEY:
        return f"these credentials are not the store's: check {_ENVIRONMENT[kind]}"
    if code in _NO_BUCKET:
        return "create the bucket (the container), or correct objects.url"
    if code in _NO_SPACE:
        return "make room there, or have the quota raised; nothing was written half, a rerun goes on from here"
    return None


def _disk_is_full(error: Exception, cause: str) -> bool:
    number = error.errno if isinstance(error, OSError) else None
    named = _OS_ERROR.search(cause)
    return number in _DISK_IS_FULL or (named is not None and int(named[1]) in _DISK_IS_FULL)
