"""Somewhere files are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ObjectStore(Protocol):
    """Files by key, where a key is a path such as `shop/shopdb/users/0/17-3.parquet`.

    A file is there whole or not at all, whatever happens while it is written,
    and writing it again replaces it. Every method raises UnavailableError when
    the store cannot be reached and SinkError when it refuses.
    """

    def put(self, key: str, content: bytes) -> None:
        """Write a file in one step."""
        ...

    def get(self, key: str) -> bytes:
        """Read a whole file; SinkError if there is none."""
        ...

    def pieces(self, key: str) -> Iterator[bytes]:
        """Yield a whole file piece by piece, so that it need not fit into memory.

        It raises what `get` does, maybe after some pieces.
        """
        ...

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        ...

    def list(self, prefix: str) -> Sequence[str]:
        """Every key in the folder `prefix` and below it, sorted; `prefix` ends at a slash of the key."""
        ...

    def written(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield each file in the folder `prefix` and below it, and when it was written (Unix ms of the store's clock).

        They come as the store tells them, some at a time and in any order: all of them need not fit into memory.
        """
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files; those that are gone already are no mistake."""
        ...

    def local_path(self, key: str) -> str | None:
        """Where the file is on this machine's disk; None for a store that is elsewhere."""
        ...
