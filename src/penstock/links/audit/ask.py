"""Asks databases: both sides at once, and rows by keys in pages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.audit.findings import RowKey
    from penstock.core.audit.side import AuditSide

_KEYS_AT_ONCE: Final = 1000
_WIDE_NUMBERS_AT_ONCE: Final = 10_000

T = TypeVar("T")


def at_once(mine: Callable[[], T], theirs: Callable[[], T]) -> tuple[T, T]:
    """Do both, each of which has a database to itself."""
    with ThreadPoolExecutor(1) as other:
        found = other.submit(theirs)
        return mine(), found.result()


def pages(side: AuditSide, keys: Sequence[RowKey]) -> Iterator[Sequence[RowKey]]:
    """Yield `keys` in groups, each for one query: a database looks up whole numbers in a list, others one by one."""
    is_number = len(side.key) == 1 and side.key[0].kind == "integer"
    listed = [key for key in keys if is_number and key[0] is not None]
    others = keys if not listed else [key for key in keys if key[0] is None]
    yield from groups(listed, side.dialect.numbers_at_once if side.cut == "integer" else _WIDE_NUMBERS_AT_ONCE)
    yield from groups(others, _KEYS_AT_ONCE)


def groups(listed: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield what is listed, `size` at a time."""
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
