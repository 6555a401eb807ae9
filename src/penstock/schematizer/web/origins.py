"""Forms are taken from our own pages alone: who is logged in must not be made to post by another site.

Browsers say where a request comes from in headers that pages cannot set.
Sources: W3C Fetch Metadata, "The Sec-Fetch-Site HTTP Request Header", which
they send to https and to loopback; RFC 6454, section 7, "The HTTP Origin
Header Field", which they send with every POST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request  # noqa: TC002 - FastAPI reads annotations when it runs

from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.rights import user_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_BODY_BYTES_MAX = 1 << 20
_FIELDS_MAX = 50
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that one of our pages sent; the `author` is whoever has signed in, if anybody has.

    Raises RefusedError for any other request.
    """
    _require_own_origin(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise RefusedError(Code.INVALID_REQUEST, "this is no form", "use the page's own form, or the routes of /v1")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            message = f"the form is longer than {_BODY_BYTES_MAX} bytes"
            raise RefusedError(Code.INVALID_REQUEST, message, "shorten what you wrote")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        message = f"the form cannot be read: {error}"
        raise RefusedError(Code.INVALID_REQUEST, message, "use the page's own form") from error
    # Forms send line ends as CR LF (HTML, "Constructing the entry list").
    form = {name: value.replace("\r\n", "\n") for name, value in fields}
    user = user_of(request.scope).name
    return form | {"author": user} if user else form


def _require_own_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        is_own = site == "same-origin"
    else:
        origin = urlsplit(request.headers.get("origin", "")).netloc
        is_own = bool(origin) and origin.lower() == request.headers.get("host", "").lower()
    if not is_own:
        raise RefusedError(
            Code.FOREIGN_ORIGIN, "this form was not sent by a page of this registry", "open the page here and try again"
        )
