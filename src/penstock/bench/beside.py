"""What a bench does beside what it measures."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Beside(ABC):
    """A thread that works while a `with` block lasts."""

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"bench-{name}", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._begin()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have the thread end, and wait for it."""
        self._stopping.set()
        self._thread.join()
        self._end()

    def _begin(self) -> None:  # noqa: B027 - most need nothing before they start
        """Do what comes before the thread."""

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping` is set."""

    @abstractmethod
    def _end(self) -> None:
        """Do what comes behind the thread."""
