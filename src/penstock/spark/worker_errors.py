"""Brings an error of ours from a worker of a join to the driver, in the text of what Spark raises there.

That text may also hold what somebody wrote into a topic. So what is ours stands
behind a token that the driver makes for each query and nobody else knows, and it
is JSON: a class of core/errors.py by its name, and its arguments.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core import errors
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_KINDS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PenstockError)
}


def new_token() -> str:
    """A token for the errors of one query."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Telling:
    """Packs messages on a worker, and tells errors of ours so that `as_told` finds them by `token`."""

    pack: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    token: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack messages. Raises RuntimeError in place of a PenstockError."""
        try:
            yield from self.pack(batches)
        except PenstockError as error:
            told = f"{self.token}:{_to_text(error)}"
            raise RuntimeError(told) from None


def as_told(error: BaseException, token: str) -> BaseException:
    """The error of ours that a worker told, if `error` is Spark's word for it; else `error`."""
    if isinstance(error, PenstockError):
        return error
    found = re.search(re.escape(token) + ":([0-9a-f]+)", str(error))
    return error if found is None else _from_text(found.group(1))


def _to_text(error: PenstockError) -> str:
    """In hexadecimal: Spark prints the text in several ways."""
    kind = next(kind for kind in type(error).__mro__ if _KINDS.get(kind.__name__) is kind)
    return json.dumps([kind.__name__, error.args]).encode().hex()


def _from_text(text: str) -> PenstockError:
    name, args = json.loads(bytes.fromhex(text))
    kind: Callable[..., PenstockError] = _KINDS[name]
    return kind(*(tuple(each) if isinstance(each, list) else each for each in args))
