"""How both faces tell an error, in one form under the name that the face's clients know it by, and how pages do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from penstock.core.errors import UnavailableError
from penstock.schematizer.confluent_paths import MEDIA_TYPE
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from fastapi.responses import Response
    from starlette.types import Scope

# What a database that is away, or has no connection left for us, makes its driver raise.
DATABASE_AWAY = (DBAPIError, NoConnectionError, UnavailableError)
_RETRY_SECONDS = 5.0
_OWN_FACE = "/v1"
PAGES: Final = "/ui"
"""Where the pages are."""
_CHALLENGE = 'Basic realm="penstock schematizer", charset="UTF-8", Bearer realm="penstock schematizer"'


def error_answer(refused: RefusedError, scope: Scope) -> Response:
    """Return what is answered to a request: JSON, or a page to whoever asked for one."""
    headers: dict[str, str] = {}
    if refused.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = _CHALLENGE
    if refused.retry_after:
        headers["Retry-After"] = str(math.ceil(refused.retry_after))
    if scope["path"].startswith(f"{PAGES}/"):
        # Pages tell who has signed in, and so are made of what uses this module: the application has what makes one.
        page: Response = scope["app"].state.render_error(scope, refused)
        page.headers.update(headers)
        return page
    return JSONResponse(
        {
            "error_code": refused.code.number,
            "code": refused.code.word,
            # It may repeat what a client sent, which need not be what UTF-8 has.
            "message": clean(refused.message),
            "hint": clean(refused.hint),
        },
        status_code=refused.code.status,
        media_type=None if scope["path"].startswith(_OWN_FACE) else MEDIA_TYPE,
        headers=headers,
    )


def explain_database(error: Exception) -> RefusedError:
    """Return what is told of a database that is away: never a statement, nor the values in it."""
    if isinstance(error, NoConnectionError):
        crowded = "there are more requests than this registry has connections to its database for"
        return RefusedError(Code.BUSY, crowded, "try again, with fewer at once", retry_after=_RETRY_SECONDS)
    cause = error.orig if isinstance(error, DBAPIError) else error
    message = cause.message if isinstance(cause, UnavailableError) else cause
    return RefusedError(
        Code.DATABASE_UNAVAILABLE, f"the registry's database is away: {message}", "try again", _RETRY_SECONDS
    )
