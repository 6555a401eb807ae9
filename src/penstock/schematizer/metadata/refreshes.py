"""Refreshes: wishes to have a source's rows again, from the first request to their end.

not_started -> in_progress <-> paused; in_progress -> success; all three -> failed.
A transition is made in one transaction with its row locked, so of two that want
to take the same refresh one gets `illegal_transition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import literal, select

from penstock.schematizer.api.paging import read_page
from penstock.schematizer.api.usage_answers import RefreshAnswer, RefreshList
from penstock.schematizer.metadata.catalog import of_tables
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.history import HistoryPlace, add_change, set_field
from penstock.schematizer.storage.models import Namespace, Source, Thing
from penstock.schematizer.storage.usage_models import Refresh, RefreshStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from penstock.schematizer.api.usage_queries import NextRefreshQuery, RefreshQuery
    from penstock.schematizer.storage.database import UnitOfWork

PRIORITIES = {"low": 25, "medium": 50, "high": 75, "max": 100}
_ID_MAX = (1 << 63) - 1
_NEXT: Mapping[RefreshStatus, frozenset[RefreshStatus]] = {
    RefreshStatus.NOT_STARTED: frozenset({RefreshStatus.IN_PROGRESS, RefreshStatus.FAILED}),
    RefreshStatus.IN_PROGRESS: frozenset({RefreshStatus.PAUSED, RefreshStatus.SUCCESS, RefreshStatus.FAILED}),
    RefreshStatus.PAUSED: frozenset({RefreshStatus.IN_PROGRESS, RefreshStatus.FAILED}),
    RefreshStatus.SUCCESS: frozenset(),
    RefreshStatus.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class NewRefresh:
    """What a refresh is asked to do; None where nobody says."""

    priority: int
    batch_rows: int
    rows_per_second_max: int | None = None
    rows_total: int | None = None
    filter_condition: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a refresh has come; None leaves a part as it is."""

    rows_done: int | None = None
    rows_total: int | None = None
    offset: str | None = None


def add_refresh(work: UnitOfWork, source: Source, new_refresh: NewRefresh) -> RefreshAnswer:
    """Wish for a refresh of `source`."""
    now = now_ms()
    refresh = Refresh(
        source=source,
        status=RefreshStatus.NOT_STARTED,
        priority=new_refresh.priority,
        rows_done=0,
        rows_total=new_refresh.rows_total,
        offset="",
        batch_rows=new_refresh.batch_rows,
        rows_per_second_max=new_refresh.rows_per_second_max,
        filter_condition=new_refresh.filter_condition,
        created_at_ms=now,
        updated_at_ms=now,
    )
    work.session.add(refresh)
    work.session.flush()
    add_change(work, _place(refresh), "status", ("", refresh.status))
    return RefreshAnswer.of(refresh)


def move_refresh(work: UnitOfWork, refresh_id: int, status: RefreshStatus, progress: Progress) -> RefreshAnswer:
    """Bring a refresh to another status, and keep how far it has come. Raises RefusedError where it cannot go there."""
    refresh = find_refresh(work.session, refresh_id, lock=True)
    before = RefreshStatus(refresh.status)
    if status not in _NEXT[before]:
        message = f"refresh {refresh_id} is {before}, from which it cannot become {status}"
        allowed = ", ".join(sorted(_NEXT[before])) or "nothing: wish for another refresh"
        raise RefusedError(Code.ILLEGAL_TRANSITION, message, f"it can become {allowed}")
    _keep_progress(refresh, progress)
    set_field(work, _place(refresh), refresh, "status", status.value)
    refresh.updated_at_ms = now_ms()
    if status is RefreshStatus.IN_PROGRESS and refresh.started_at_ms is None:
        refresh.started_at_ms = refresh.updated_at_ms
    if not _NEXT[status]:
        refresh.ended_at_ms = refresh.updated_at_ms
    return RefreshAnswer.of(refresh)


def advance_refresh(session: Session, refresh_id: int, progress: Progress) -> RefreshAnswer:
    """Keep how far a refresh that is in progress has come. Raises RefusedError for one that is not."""
    refresh = find_refresh(session, refresh_id, lock=True)
    if refresh.status != RefreshStatus.IN_PROGRESS:
        message = f"refresh {refresh_id} is {refresh.status}, so it makes no progress"
        raise RefusedError(Code.ILLEGAL_TRANSITION, message, "set its status to in_progress first")
    _keep_progress(refresh, progress)
    refresh.updated_at_ms = now_ms()
    return RefreshAnswer.of(refresh)


def set_priority(work: UnitOfWork, refresh_id: int, priority: int) -> RefreshAnswer:
    """Give a refresh another priority."""
    refresh = find_refresh(work.session, refresh_id, lock=True)
    if set_field(work, _place(refresh), refresh, "priority", priority):
        refresh.updated_at_ms = now_ms()
    return RefreshAnswer.of(refresh)


def find_refresh(session: Session, refresh_id: int, *, lock: bool = False) -> Refresh:
    """Return a refresh; RefusedError if there is none. With `lock` it is the caller's until the transaction ends."""
    query = select(Refresh).where(Refresh.id == refresh_id)
    found = None
    if abs(refresh_id) <= _ID_MAX:
        found = session.scalars(query.with_for_update(of=Refresh) if lock else query).one_or_none()
    if found is None:
        hint = "see GET /v1/refreshes for those there are"
        raise RefusedError(Code.UNKNOWN_REFRESH, f"there is no refresh {refresh_id}", hint)
    return found


def read_refreshes(session: Session, asked: RefreshQuery) -> RefreshList:
    """List refreshes, the oldest first."""
    query = _refreshes(asked)
    if asked.status is not None:
        query = query.where(Refresh.status == asked.status)
    if asked.created_after is not None:
        query = query.where(Refresh.created_at_ms > asked.created_after)
    if asked.updated_after is not None:
        query = query.where(Refresh.updated_at_ms > asked.updated_after)
    found, following = read_page(session, query, [Refresh.id], asked.window)
    return RefreshList(items=[RefreshAnswer.of(each) for each in found], next=following)


def read_next(session: Session, asked: NextRefreshQuery) -> RefreshList:
    """List the refreshes that wait, the highest priority first, then the oldest."""
    waiting = Refresh.status.in_([RefreshStatus.NOT_STARTED, RefreshStatus.PAUSED])
    query = _refreshes(asked).where(waiting)
    found, following = read_page(session, query, [literal(0) - Refresh.priority, Refresh.id], asked.window)
    return RefreshList(items=[RefreshAnswer.of(each) for each in found], next=following)


def _refreshes(asked: RefreshQuery | NextRefreshQuery) -> Select[Refresh]:
    query = select(Refresh).join(Source, Source.id == Refresh.source_id).join(Namespace)
    return of_tables(query, asked)


def _keep_progress(refresh: Refresh, progress: Progress) -> None:
    if progress.rows_done is not None and progress.rows_done < refresh.rows_done:
        message = f"refresh {refresh.id} has done {refresh.rows_done} rows, which {progress.rows_done} are fewer than"
        raise RefusedError(Code.INVALID_REQUEST, message, "send how many rows are done since the refresh began")
    for name in ("rows_done", "rows_total", "offset"):
        value = getattr(progress, name)
        if value is not None:
            setattr(refresh, name, value)


def _place(refresh: Refresh) -> HistoryPlace:
    source = refresh.source
    return HistoryPlace(
        Thing.REFRESH, source.namespace.name, source.table_schema, source.table_name, entity=str(refresh.id)
    )
