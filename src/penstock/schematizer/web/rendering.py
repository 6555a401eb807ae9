"""From a page's values to its HTML: templates, links, and the headers that keep a page to itself."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.schematizer.http.error_answers import PAGES
from penstock.schematizer.security.rights import user_of
from penstock.schematizer.storage.words import clean
from penstock.schematizer.web.links import fragment, link
from penstock.schematizer.web.reasons import plain_reasons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request
    from starlette.types import Scope

    from penstock.schematizer.refusals import RefusedError

# Content Security Policy Level 3: nothing from elsewhere, nothing inline, in nobody's frame.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Without a referrer browsers would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}


# A page's values are of any type: its template knows them.
def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Return the page that `template` makes of `values`."""
    return _render(request.scope, template, status, values)


def render_error(scope: Scope, refused: RefusedError) -> HTMLResponse:
    """Return a page that says what is wrong, with the status that the API would give."""
    return _render(scope, "error.html", refused.code.status, {"refused": refused})


def _render(scope: Scope, template: str, status: int, values: Mapping[str, object]) -> HTMLResponse:
    root = str(scope.get("root_path", ""))

    def page_link(*parts: object, **asked: object) -> str:
        return root + link(*(str(part) for part in parts)) + (f"?{urlencode(asked)}" if asked else "")

    body = (
        _templates()
        .get_template(template)
        .render(
            root=root,
            link=page_link,
            user=user_of(scope).name,
            static=f"{root}{PAGES}/static/",
            docs=f"{root}/docs",
            **({"searched": ""} | dict(values)),
        )
    )
    # What a schema says by an escape may be what UTF-8 has not.
    return HTMLResponse(clean(body), status_code=status, headers=_HEADERS)


@lru_cache(1)
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("penstock.schematizer.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        moment=_moment,
        plain_reasons=plain_reasons,
        moment_iso=_moment_iso,
        count=_count,
        fragment=fragment,
        quoted=lambda text: quote(text, safe="@"),
        sentence=lambda text: text[:1].upper() + text[1:],
    )
    environment.globals["field_names"] = _FIELD_NAMES
    return environment


_FIELD_NAMES: Mapping[str, str] = {
    "owner_email": "owner",
    "doc": "docs",
    "comment": "comment of the table",
    "contains_pii": "personal data",
    "requires_owner": "owner required",
    "requires_docs": "docs required",
}


def _moment(unix_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix_ms / 1000))


def _moment_iso(unix_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_ms / 1000))


def _count(number: int) -> str:
    """Write a number with thin spaces between its thousands."""
    return f"{number:,}".replace(",", "\u202f")
