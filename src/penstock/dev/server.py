"""What every local server has in common."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class Server(abc.ABC):
    """A running server on loopback that ends with the `with` block that holds it, and never after its parent.

    Its data stays in its home directory; the next start there finds data and ports again.
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """The server's process id."""

    @abc.abstractmethod
    def alive(self) -> bool:
        """Whether all of its processes still run."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Shut it down in order; kill it if that takes too long. Safe to call twice."""

    @abc.abstractmethod
    def kill(self) -> None:
        """End it as kill -9 would. Safe to call twice."""

    @abc.abstractmethod
    def facts(self) -> Mapping[str, str | int]:
        """What a client needs to know to connect."""

    def __enter__(self) -> Self:
        """Hold the server for a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shut it down."""
        self.stop()
