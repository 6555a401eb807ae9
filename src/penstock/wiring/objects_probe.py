"""Asks an object store for all that a pipeline will want of it."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UnfitServerError
from penstock.core.files import key_folder

if TYPE_CHECKING:
    from penstock.ports.objects import ObjectStore

_TOKEN_BYTES = 8
_CONTENT = b"penstock check --connect wrote this, and deletes it again\n"


def probe_large_messages(objects: ObjectStore, folder: str) -> None:
    """Write a small file where large messages are kept, and delete it. Raises what the store raises.

    Nobody but the store itself deletes files there, so we need not be allowed to: one small file is left then.
    """
    key = f"{folder}/check"
    objects.put(key, _CONTENT)
    with suppress(PenstockError):
        objects.delete([key])


def probe_objects(objects: ObjectStore, pipeline: str) -> str:
    """Write a small file, read it, find it in a list and delete it; return what was done.

    Raises what the store raises, and UnfitServerError where one of these has no
    effect. The file's name is its own, so nothing else is touched; it is deleted also
    where the store refuses something in between. Conditional writes are not tried:
    a key of ours only ever has one content.
    """
    folder = f"{key_folder(pipeline)}/check"
    key = f"{folder}/{secrets.token_hex(_TOKEN_BYTES)}"
    objects.put(key, _CONTENT)
    try:
        if objects.get(key) != _CONTENT:
            message = f"what was written as {key} is read back as something else"
            raise UnfitServerError(message, "see whether a proxy or a cache is between Penstock and the store")
        if key not in objects.list(folder):
            message = f"{key} was written, and is not among the files below {folder}"
            raise UnfitServerError(
                message, "permit that files are listed there (s3:ListBucket), and see that nothing caches lists"
            )
    except PenstockError:
        with suppress(PenstockError):
            objects.delete([key])
        raise
    objects.delete([key])
    if objects.exists(key):
        message = f"{key} was deleted, and is still there"
        raise UnfitServerError(message, "permit that files are deleted there (s3:DeleteObject), or delete it by hand")
    return "can be written, read, listed and deleted from"
