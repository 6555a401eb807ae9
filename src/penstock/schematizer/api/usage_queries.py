"""What callers may say and ask about who uses topics."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from penstock.schematizer.api.queries import (
    NO_NUL,
    IdFilter,
    PageQuery,
    PathSegment,
    TableQuery,
    TextFilter,
    TimeFilter,
)
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.usage_models import RefreshStatus
from penstock.schematizer.storage.words import is_clean

_INT_MAX = (1 << 31) - 1
_NAME_CHARACTERS_MAX = 255
_BIGINT_MAX = (1 << 62) - 1

RefreshId = Annotated[int, Path(examples=[1])]
TargetName = Annotated[PathSegment, Path(description="The data target's name", examples=["warehouse"])]
GroupName = Annotated[PathSegment, Path(description="The consumer group's name", examples=["warehouse-loader"])]
ClientName = Annotated[PathSegment, Path(description="The producer's or consumer's name", examples=["billing"])]

ShortText = Annotated[str, Field(max_length=255, pattern=NO_NUL)]
LongWords = Annotated[str, Field(max_length=100_000, pattern=NO_NUL)]
PositiveInt = Annotated[int, Field(ge=1, le=_INT_MAX)]
Count = Annotated[int, Field(ge=0, le=_BIGINT_MAX)]


class RefreshQuery(TableQuery):
    """Which refreshes."""

    status: RefreshStatus | None = Field(default=None, description="Only those that stand so")
    created_after: TimeFilter | None = Field(default=None, description="Only those wished for since then, Unix ms")
    updated_after: TimeFilter | None = Field(default=None, description="Only those that changed since then, Unix ms")


class NextRefreshQuery(TableQuery):
    """Which refreshes may be next."""


class TargetQuery(PageQuery):
    """Which data targets."""

    type: TextFilter = Field(default="", description="Only those of this type", examples=["redshift"])


class GroupQuery(PageQuery):
    """Which consumer groups."""

    data_target: TextFilter = Field(default="", description="Only those that fill this data target")


class ClientQuery(PageQuery):
    """Which producers or consumers."""

    topic: TextFilter = Field(default="", description="Only those that were seen on this topic")
    schema_id: IdFilter | None = Field(default=None, description="Only those that were seen with this schema last")
    team: TextFilter | None = Field(default=None, description="Only those of this team")
    owner_email: TextFilter | None = Field(default=None, description="Only those of this owner")


class UseQuery(PageQuery):
    """Which uses of topics."""

    unseen_since: TimeFilter | None = Field(default=None, description="Only those last seen before then, Unix ms")


def new_name(name: str) -> str:
    """Return a name of something new. Raises RefusedError for one that no database of ours could keep."""
    if len(name) > _NAME_CHARACTERS_MAX or not is_clean(name):
        message = f"{name[:80]!r} cannot be a name"
        raise RefusedError(Code.INVALID_REQUEST, message, f"use 1 to {_NAME_CHARACTERS_MAX} characters of Unicode")
    return name
