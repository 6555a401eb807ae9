"""What a topic has in place of a message that is larger than it takes: where in the object store the message is.

It is a JSON object, `{"penstock_object": {"key": ..., "size_bytes": ..., "sha256": ...}}`. Messages in
Avro begin with a zero byte, so neither can be taken for the other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import CorruptLogError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FRONT: Final = b'{"penstock_object": '
ONLY_PENSTOCK: Final = "let only Penstock write to this topic"


@dataclass(frozen=True, slots=True)
class LargeMessage:
    """Where a message is: its key in the object store, how many bytes it has, and their SHA-256 in hexadecimal."""

    key: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        """Raise TypeError for what is of another kind: it may come from a message that anybody wrote."""
        if (type(self.key), type(self.size_bytes), type(self.sha256)) != (str, int, str):
            message = "a key, a number of bytes and a SHA-256 are expected"
            raise TypeError(message)

    def to_value(self) -> bytes:
        """The value that the topic has in its place."""
        return json.dumps({"penstock_object": asdict(self)}).encode()

    def is_content(self, content: bytes) -> bool:
        """Whether `content` is the message."""
        return len(content) == self.size_bytes and hashlib.sha256(content).hexdigest() == self.sha256


def place_in(folder: str, content: bytes) -> LargeMessage:
    """Return where a message is to be kept: the same content is the same file, and none gets another."""
    digest = hashlib.sha256(content).hexdigest()
    return LargeMessage(f"{folder}/{digest}.avro", len(content), digest)


def any_large(values: Sequence[bytes]) -> bool:
    """Whether one of them is such a value. A million messages go through here."""
    return max(values, default=b"") >= _FRONT and any(map(is_large, values))


def is_large(value: bytes | None) -> bool:
    """Whether `value` says where a message is, and is not the message."""
    return value is not None and value.startswith(_FRONT)


def read_large(value: bytes) -> LargeMessage:
    """Read a value of which `is_large` is true; CorruptLogError if it is none of ours."""
    try:
        return LargeMessage(**json.loads(value)["penstock_object"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"a message begins as one that is in the object store, and does not say where: {value[:200]!r}"
        raise CorruptLogError(reason, ONLY_PENSTOCK) from error
