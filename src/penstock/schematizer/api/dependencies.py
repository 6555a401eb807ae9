"""What every route of the /v1 API is given, and how it answers what goes wrong."""

from typing import Annotated

from fastapi import Depends, Request

from penstock.schematizer.api.answers import ErrorAnswer
from penstock.schematizer.api.queries import author_of
from penstock.schematizer.storage.database import AuthoredDatabase, Database


async def database_of(request: Request) -> Database:
    """Return the database of the application that a request came to."""
    database = request.app.state.database
    assert isinstance(database, Database)  # noqa: S101 - the application's factory put it there
    return database


Store = Annotated[Database, Depends(database_of)]


async def writer_of(store: Store, author: Annotated[str, Depends(author_of)]) -> AuthoredDatabase:
    """Return the database as whoever sends a request writes to it."""
    return AuthoredDatabase(store, author)


Writer = Annotated[AuthoredDatabase, Depends(writer_of)]

ERRORS: dict[int | str, dict[str, object]] = {
    404: {"model": ErrorAnswer, "description": "There is no such thing"},
    422: {"model": ErrorAnswer, "description": "The request, or a schema in it, is not valid"},
    503: {"model": ErrorAnswer, "description": "The registry's database is away; try again"},
}
