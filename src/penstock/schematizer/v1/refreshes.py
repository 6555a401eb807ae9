"""The /v1 routes about refreshes."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.usage_answers import RefreshAnswer, RefreshList
from penstock.schematizer.api.usage_queries import (
    Count,
    LongWords,
    NextRefreshQuery,
    PositiveInt,
    RefreshId,
    RefreshQuery,
)
from penstock.schematizer.metadata.refreshes import (
    PRIORITIES,
    NewRefresh,
    Progress,
    add_refresh,
    advance_refresh,
    find_refresh,
    move_refresh,
    read_next,
    read_refreshes,
    set_priority,
)
from penstock.schematizer.registry.documentation import find_source
from penstock.schematizer.storage.usage_models import RefreshStatus
from penstock.schematizer.v1.documentation import SOURCE, SourcePath

router = APIRouter(prefix="/v1", tags=["refreshes"], responses=dict(ERRORS))
_ONE = "/refreshes/{refresh_id}"

Priority = Annotated[
    Literal["low", "medium", "high", "max"] | Annotated[int, Field(ge=1, le=1000)],
    Field(description="low, medium, high, max (25, 50, 75, 100), or a number; the highest is the first"),
]


class RefreshRequest(BaseModel):
    """What to refresh, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    priority: Priority = Field(default="medium", examples=["high"])
    batch_rows: PositiveInt = Field(default=1000, description="How many rows to read at once", examples=[1000])
    rows_per_second_max: PositiveInt | None = Field(default=None, examples=[5000])
    rows_total: Count | None = Field(default=None, description="How many rows it will be", examples=[100_000])
    filter_condition: LongWords = Field(
        default="", description='A condition in the source\'s SQL, "" for every row', examples=["id > 1000"]
    )


class PriorityRequest(BaseModel):
    """Another priority."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    priority: Priority = Field(examples=["max"])


class ProgressRequest(BaseModel):
    """How far a refresh has come; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows_done: Count | None = Field(default=None, description="Since it began", examples=[20_000])
    rows_total: Count | None = Field(default=None, examples=[100_000])
    offset: LongWords | None = Field(default=None, description="Where to go on", examples=["20000"])

    def progress(self) -> Progress:
        """Return what is told."""
        return Progress(self.rows_done, self.rows_total, self.offset)


class StatusRequest(ProgressRequest):
    """Where a refresh stands now."""

    status: RefreshStatus = Field(examples=["in_progress"])


@router.post(SOURCE + "/refreshes", summary="Wish for a refresh")
def post_refresh(writer: Writer, place: SourcePath, body: RefreshRequest) -> RefreshAnswer:
    """Wish for a source's rows to be read again, all or some of them."""
    new_refresh = NewRefresh(
        _number(body.priority), body.batch_rows, body.rows_per_second_max, body.rows_total, body.filter_condition
    )
    return writer.write(lambda work: add_refresh(work, find_source(work.session, *place), new_refresh))


@router.get("/refreshes", summary="List refreshes")
def get_refreshes(store: Store, asked: Annotated[RefreshQuery, Query()]) -> RefreshList:
    """List refreshes, the oldest first."""
    return store.read(lambda session: read_refreshes(session, asked))


@router.get("/refreshes/next", summary="Which refresh is next")
def get_next_refreshes(store: Store, asked: Annotated[NextRefreshQuery, Query()]) -> RefreshList:
    """List refreshes that wait, not started or paused: the highest priority first, then the oldest.

    To take one, set its status to in_progress: whoever comes second gets `illegal_transition`.
    """
    return store.read(lambda session: read_next(session, asked))


@router.get(_ONE, summary="One refresh")
def get_refresh(store: Store, refresh_id: RefreshId) -> RefreshAnswer:
    """Describe a refresh."""
    return store.read(lambda session: RefreshAnswer.of(find_refresh(session, refresh_id)))


@router.put(_ONE + "/status", summary="Bring a refresh to another status")
def put_status(writer: Writer, refresh_id: RefreshId, body: StatusRequest) -> RefreshAnswer:
    """Start, pause, resume or end a refresh.

    not_started becomes in_progress or failed; in_progress becomes paused, success or
    failed; paused becomes in_progress or failed. Nothing else is taken.
    """
    return writer.write(lambda work: move_refresh(work, refresh_id, body.status, body.progress()))


@router.put(_ONE + "/progress", summary="Tell how far a refresh has come")
def put_progress(store: Store, refresh_id: RefreshId, body: ProgressRequest) -> RefreshAnswer:
    """Keep how far a refresh that is in progress has come. Rows done never become fewer."""
    return store.write(lambda session: advance_refresh(session, refresh_id, body.progress()))


@router.put(_ONE + "/priority", summary="Give a refresh another priority")
def put_priority(writer: Writer, refresh_id: RefreshId, body: PriorityRequest) -> RefreshAnswer:
    """Bring a refresh forward, or let it wait longer."""
    return writer.write(lambda work: set_priority(work, refresh_id, _number(body.priority)))


def _number(priority: str | int) -> int:
    return priority if isinstance(priority, int) else PRIORITIES[priority]
