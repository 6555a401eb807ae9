"""What takes seconds to start, made beside other things that do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")


class Beside(Generic[_Made]):
    """`make` is called at once, in a thread of its own; `take` waits for what it returns.

    What nobody takes is ended by `end`. The thread holds no process up that wants to end.
    """

    def __init__(self, make: Callable[[], _Made], end: Callable[[_Made], None]) -> None:
        """Begin."""
        self._make = make
        self._end = end
        self._lock = threading.Lock()
        self._is_given_up = False
        self._made: list[_Made] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-beside", daemon=True)
        self._thread.start()

    def take(self) -> _Made:
        """Wait for it, and own it. Raises what `make` raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made.pop()

    def give_up(self) -> None:
        """End it where nobody has taken it, as soon as it is there. Never waits for that."""
        with self._lock:
            self._is_given_up = True
            if self._made:
                self._end(self._made.pop())

    def _run(self) -> None:
        try:
            made = self._make()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
            return
        with self._lock:
            if self._is_given_up:
                self._end(made)
            else:
                self._made.append(made)
