"""Asks databases: both sides at once, and rows by keys in pages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    import numpy.typing as npt

    from penstock.core.audit.side import AuditSide
    from penstock.core.audit.suspects import Suspects

_KEYS_AT_ONCE: Final = 1000
_WIDE_NUMBERS_AT_ONCE: Final = 10_000

T = TypeVar("T")
G = TypeVar("G", "range", "npt.NDArray[np.int64]")


def at_once(mine: Callable[[], T], theirs: Callable[[], T]) -> tuple[T, T]:
    """Do both, each of which has a database to itself."""
    with ThreadPoolExecutor(1) as other:
        found = other.submit(theirs)
        return mine(), found.result()


def one_ahead(calls: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield what each of `calls` returns; the next one is under way meanwhile."""
    with ThreadPoolExecutor(1) as other:
        before: Future[T] | None = None
        for call in calls:
            coming = other.submit(call)
            if before is not None:
                yield before.result()
            before = coming
        if before is not None:
            yield before.result()


def page_places(side: AuditSide, suspects: Suspects) -> Iterator[npt.NDArray[np.int64]]:
    """Yield which of `suspects` to ask for in one query: a database looks up numbers in a list, others one by one."""
    is_listed = np.zeros(len(suspects), np.bool_)
    if len(side.key) == 1 and side.key[0].kind == "integer":
        is_listed = np.asarray(suspects.keys[0].is_valid())
    at_once = side.dialect.numbers_at_once if side.cut == "integer" else _WIDE_NUMBERS_AT_ONCE
    yield from groups(np.flatnonzero(is_listed), at_once)
    yield from groups(np.flatnonzero(~is_listed), _KEYS_AT_ONCE)


def groups(listed: G, size: int) -> Iterator[G]:
    """Yield what is listed, `size` at a time."""
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
