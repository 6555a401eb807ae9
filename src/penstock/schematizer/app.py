"""The web application: both faces on one database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError

from penstock.core.errors import UnavailableError
from penstock.schematizer import confluent, v1
from penstock.schematizer.database import open_database
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.schema_cache import SchemaCache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import Request

_DESCRIPTION = """The source of truth for every topic: which table it carries, with which schemas.

`/v1` is the Schematizer's own API; the routes beside it are those that clients of
Confluent's Schema Registry know. Every error has the same form: go by its `code`.
"""


def create_app(database_url: str) -> FastAPI:
    """Open the database at `database_url`, bring it up to date and serve it.

    Raises UsageError for a URL that cannot work and UnavailableError when the
    database does not answer.
    """
    database = open_database(database_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        database.close()

    app = FastAPI(
        title="Penstock Schematizer", description=_DESCRIPTION, version=version("penstock"), lifespan=lifespan
    )
    app.state.database = database
    app.state.schemas = SchemaCache()
    app.include_router(v1.router)
    app.include_router(confluent.router)
    for kind, explain in _EXPLANATIONS.items():
        app.add_exception_handler(kind, _handler(explain))
    return app


def _handler(explain: Callable[[Exception], RefusedError]) -> Callable[[Request, Exception], JSONResponse]:
    # Both faces answer errors in one form; only the name of the form differs.
    def handle(request: Request, error: Exception) -> JSONResponse:
        refused = explain(error)
        own_face = request.url.path.startswith(v1.router.prefix)
        return JSONResponse(
            {
                "error_code": refused.code.number,
                "code": refused.code.word,
                "message": refused.message,
                "hint": refused.hint,
            },
            status_code=refused.code.status,
            media_type=None if own_face else confluent.MEDIA_TYPE,
        )

    return handle


def _explain_refusal(error: Exception) -> RefusedError:
    assert isinstance(error, RefusedError)  # noqa: S101 - it is registered for that class
    return error


def _explain_route(_: Exception) -> RefusedError:
    return RefusedError(Code.UNKNOWN_ROUTE, "there is no such route", "see /docs for the routes there are")


def _explain_method(_: Exception) -> RefusedError:
    return RefusedError(Code.METHOD_NOT_ALLOWED, "the route has no such method", "see /docs for the methods it has")


def _explain_body(_: Exception) -> RefusedError:
    return RefusedError(Code.INVALID_REQUEST, "the request's body cannot be read", "send JSON in UTF-8")


def _explain_request(error: Exception) -> RefusedError:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for that class
    mistakes = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
    return RefusedError(Code.INVALID_REQUEST, "; ".join(mistakes), "see /docs for what this route takes")


def _explain_depth(_: Exception) -> RefusedError:
    return RefusedError(
        Code.INVALID_SCHEMA, "the schema is nested too deeply", "name its inner types and refer to them"
    )


def _explain_database(error: Exception) -> RefusedError:
    return RefusedError(Code.DATABASE_UNAVAILABLE, f"the registry's database is away: {error}", "try again")


# A number stands for the errors of that status that the framework raises by itself.
_EXPLANATIONS: dict[int | type[Exception], Callable[[Exception], RefusedError]] = {
    RefusedError: _explain_refusal,
    400: _explain_body,
    404: _explain_route,
    405: _explain_method,
    RequestValidationError: _explain_request,
    RecursionError: _explain_depth,
    DBAPIError: _explain_database,
    UnavailableError: _explain_database,
}
