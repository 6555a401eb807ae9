"""Runs of transactions as the items of single ones, which are what a run stands for."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from penstock.core.mysql.log.log_items import FewTransactions, TransactionBegan, TransactionEnded, TransactionsLogged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.types.logged_rows import RowsLogged


def one_by_one(items: Iterable[LogItem]) -> list[LogItem]:
    """The items with every run taken apart."""
    return list(chain.from_iterable(map(_singly, items)))


def _singly(item: LogItem) -> Iterable[LogItem]:
    if isinstance(item, FewTransactions):
        return item.singly()
    return taken_apart(item) if isinstance(item, TransactionsLogged) else [item]


def without_beginnings(items: Iterable[LogItem]) -> list[LogItem]:
    """The same without where transactions begin, which a run does not know where the log has gaps."""
    return [replace(item, offset=0) if isinstance(item, TransactionBegan) else item for item in one_by_one(items)]


def taken_apart(run: TransactionsLogged) -> Iterator[LogItem]:
    rows = sorted(chain.from_iterable(run.blocks), key=lambda event: event.offset)
    offsets = [run.begin.offset, *run.ends.tolist()]
    columns = zip(pairwise(offsets), run.gtids.texts().to_pylist(), run.times_ms.tolist(), strict=True)
    for count, ((begin, end), gtid, time_ms) in enumerate(columns, 1):
        inside: list[RowsLogged] = [event for event in rows if begin <= event.offset < end]
        if inside:
            yield TransactionBegan(run.begin.file, begin, gtid or "", time_ms)
        yield from inside
        yield TransactionEnded(run.first(count).end, time_ms)
    assert all(event.offset < offsets[-1] for event in rows)
