"""The web application: both faces on one database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, IntegrityError

from penstock.release import RELEASE
from penstock.schematizer.api.answers import ErrorAnswer
from penstock.schematizer.confluent import routes as confluent
from penstock.schematizer.confluent.client_requests import ClientRequests
from penstock.schematizer.confluent.shortcuts import Shortcuts
from penstock.schematizer.confluent_paths import ROOTS, ContextInFront
from penstock.schematizer.http.error_answers import DATABASE_AWAY, error_answer, explain_database
from penstock.schematizer.http.guard import Guarded
from penstock.schematizer.http.limits import Limited
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.http.turns import Turns
from penstock.schematizer.path_segments import SegmentsApart
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.known_answers import KnownAnswers
from penstock.schematizer.registry.schema_cache import SchemaCache
from penstock.schematizer.security.sign_in import SignIn
from penstock.schematizer.storage.database import open_database
from penstock.schematizer.v1 import (
    clients,
    documentation,
    meta_attributes,
    migrations,
    notes,
    refreshes,
    registration,
    targets,
    topics,
)
from penstock.schematizer.v1 import routes as v1
from penstock.schematizer.web import api_page, browsing, editing, schema_pages
from penstock.schematizer.web.figures import KafkaFigures
from penstock.schematizer.web.rendering import render_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import Request
    from fastapi.responses import Response

    from penstock.schematizer.storage.database import Database

_DESCRIPTION = """The source of truth for every topic: which table it carries, with which schemas.

`/v1` is the Schematizer's own API; the routes beside it are those that clients of
Confluent's Schema Registry know. Every error has the same form: go by its `code`.
"""

# Every route may answer any error: it has one form, in the media type of the face.
_ERRORS: dict[int | str, dict[str, object]] = {
    422: {"model": ErrorAnswer, "description": "The request, or a schema in it, is not valid"},
    "default": {"model": ErrorAnswer, "description": "Any other error"},
}

# In the order in which a path is looked up.
_PARTS = (
    *(v1, documentation, notes, refreshes, targets, clients, meta_attributes),
    *(topics, registration, migrations),
    *(browsing, schema_pages, editing, api_page),
    confluent,
)


class _Application(FastAPI):
    """The service's application, whose OpenAPI document tells how to sign in where that is needed."""

    def openapi(self) -> dict[str, Any]:
        """The document, made when the first one asks for it: it takes most of a second of CPU."""
        document = super().openapi()
        if self.state.has_sign_in:
            document.setdefault("components", {})["securitySchemes"] = {
                name: {"type": "http", "scheme": name} for name in ("basic", "bearer")
            }
            document["security"] = [{"basic": []}, {"bearer": []}]
        return document


def create_app(database_url: str, protection: Protection | None = None, kafka: str = "") -> FastAPI:
    """Open the database at `database_url`, bring it up to date and serve it to everybody, or to whom `protection` lets.

    `kafka` is where the pages ask for live figures, host and port; "" for nowhere.
    Raises UsageError for a URL or a users file that cannot work and
    UnavailableError when the database does not answer.
    """
    database = open_database(database_url)
    registrations = KnownAnswers(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        registrations.close()
        database.close()

    app = _Application(
        title="Penstock Schematizer",
        description=_DESCRIPTION,
        version=RELEASE,
        lifespan=lifespan,
        responses=_ERRORS,
        # What FastAPI would show loads its program from elsewhere: a page of our own is at /docs.
        docs_url=None,
        redoc_url=None,
    )
    app.state.has_sign_in = bool(protection and protection.users_file)
    app.state.database = database
    app.state.schemas = SchemaCache()
    app.state.render_error = render_error
    # The middleware that is added first stands nearest to the routes.
    app.add_middleware(Turns, at_once=database.writers_max)
    app.add_middleware(Shortcuts, schemas=app.state.schemas, registrations=registrations)
    app.state.figures = KafkaFigures(kafka) if kafka else None
    for part in _PARTS:
        app.include_router(part.router)
    _protect(app, database, protection or Protection())
    for kind, explain in _EXPLANATIONS.items():
        app.add_exception_handler(kind, _handler(explain))
    return app


def _protect(app: FastAPI, database: Database, protection: Protection) -> None:
    """Put what every request passes in front of the routes, the innermost first."""
    file = protection.users_file
    sign_in = SignIn(file, protection.failures) if file else None
    app.add_middleware(Guarded, database=database, sign_in=sign_in, protection=protection)
    app.add_middleware(ContextInFront)
    app.add_middleware(SegmentsApart, roots=("v1", "ui", *ROOTS))
    app.add_middleware(ClientRequests)
    app.add_middleware(Limited, limits=protection.limits)


def _handler(explain: Callable[[Exception], RefusedError]) -> Callable[[Request, Exception], Response]:
    # Both faces answer errors in one form, only the name of the form differs; pages answer with a page.
    def handle(request: Request, error: Exception) -> Response:
        return error_answer(explain(error), request.scope)

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
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        before = str(error.body)[: first["loc"][-1]]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"the body is not JSON at line {line}, column {column}: {first['ctx']['error']}"
        return RefusedError(Code.INVALID_REQUEST, message, "send JSON in UTF-8")
    mistakes = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
    return RefusedError(Code.INVALID_REQUEST, "; ".join(mistakes), "see /docs for what this route takes")


def _explain_depth(_: Exception) -> RefusedError:
    return RefusedError(
        Code.INVALID_SCHEMA, "the schema is nested too deeply", "name its inner types and refer to them"
    )


def _explain_value(_: Exception) -> RefusedError:
    return RefusedError(
        Code.INVALID_REQUEST, "the database cannot keep one of the values", "leave out control characters"
    )


def _explain_constraint(error: Exception) -> RefusedError:
    cause = error.orig if isinstance(error, IntegrityError) else error
    message = f"what the registry has already does not allow this change: {cause}"
    return RefusedError(Code.CHANGED_MEANWHILE, message, "this is a defect of the registry: please report it")


# A number stands for the errors of that status that the framework raises by itself.
_EXPLANATIONS: dict[int | type[Exception], Callable[[Exception], RefusedError]] = {
    RefusedError: _explain_refusal,
    400: _explain_body,
    404: _explain_route,
    405: _explain_method,
    RequestValidationError: _explain_request,
    RecursionError: _explain_depth,
    DataError: _explain_value,
    IntegrityError: _explain_constraint,
    **dict.fromkeys(DATABASE_AWAY, explain_database),
}
