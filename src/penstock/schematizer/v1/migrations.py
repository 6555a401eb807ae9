"""The /v1 route that plans migrations of data targets."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.answers import Answer
from penstock.schematizer.api.dependencies import ERRORS, Store
from penstock.schematizer.api.queries import NO_NUL, SchemaId

router = APIRouter(prefix="/v1", tags=["data targets"], responses=dict(ERRORS))
_Name = Annotated[str, Field(max_length=255, pattern=NO_NUL)]


class TargetDialect(StrEnum):
    """The data targets whose SQL is known."""

    DUCKDB = "duckdb"
    POSTGRES = "postgres"
    REDSHIFT = "redshift"
    SNOWFLAKE = "snowflake"


class MigrationRequest(BaseModel):
    """From which schema to which, and where."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: TargetDialect = Field(examples=["redshift"])
    from_schema_id: SchemaId | None = Field(
        default=None, description="Of the table as it is; null where there is none yet", examples=[2]
    )
    to_schema_id: SchemaId = Field(description="Of the table as it shall be", examples=[3])
    catalog: _Name = Field(
        default="", description='The database that the table is in, "" for the session\'s', examples=[""]
    )
    renames: dict[_Name, _Name] | None = Field(
        default=None,
        max_length=5000,
        description="Columns that got another name, from the old one to the new one. Without it, a step in which "
        "columns both go and come is refused; {} says that there are none",
        examples=[{"note": "remark"}],
    )


class MigrationAnswer(Answer):
    """What to run, in this order."""

    target: TargetDialect = Field(examples=["redshift"])
    statements: list[str] = Field(
        examples=[['ALTER TABLE "shop"."orders" ALTER COLUMN "note" TYPE VARCHAR(1200)']],
        description="Empty where the target's table stays as it is",
    )
    limits: list[str] = Field(
        description="Columns whose longest values the target refuses",
        examples=[["body: redshift refuses values of more than 65535 bytes of UTF-8"]],
    )


@router.post("/schema_migrations", summary="Plan a data target's migration")
def post_migration(store: Store, body: MigrationRequest) -> MigrationAnswer:
    """List the SQL statements that bring a table of a data target from one schema to another. Nothing is written.

    Columns come, with the value that the source gave to rows that were there, go, or
    become wider. Where the target cannot widen a column in its place, the table is
    copied and swapped; grants on it are to be given again then. What might change a
    value is refused with `invalid_migration`.
    """
    # Imported here: the planner needs Arrow, for which a start need not wait.
    from penstock.schematizer.registry.schema_migrations import Migration, plan_schema_migration  # noqa: PLC0415

    asked = Migration(body.target, body.from_schema_id, body.to_schema_id, body.catalog, body.renames)
    planned = store.read(lambda session: plan_schema_migration(session, asked))
    return MigrationAnswer(target=body.target, statements=planned.statements, limits=planned.limits)
