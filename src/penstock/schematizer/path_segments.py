"""Names in paths may hold slashes: a path is cut before it is decoded.

Servers decode a whole path first, and then `%2F` in a name looks like the end
of a segment. So for our routes slashes and percent signs inside a segment stay
encoded until the route is found; `decoded` undoes it for a parameter.
Source: RFC 3986, section 2.4, "When to Encode or Decode".
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send


class SegmentsApart:
    """Middleware that keeps the segments of paths below some roots apart."""

    def __init__(self, app: ASGIApp, roots: Collection[str]) -> None:
        """Stand before `app`; `roots` are the first segments of the paths that are meant."""
        self._app = app
        self._roots = frozenset(roots)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on the request, its path cut first."""
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw and b"%" in raw and self._is_ours(scope["path"]):
            segments = (unquote(each) for each in raw.decode("latin-1").split("/"))
            scope = {**scope, "path": "/".join(map(_apart, segments))}
        await self._app(scope, receive, send)

    def _is_ours(self, path: str) -> bool:
        return path.partition("/")[2].partition("/")[0] in self._roots


def decoded(parameter: object) -> object:
    """Return a path's parameter as the caller meant it."""
    return unquote(parameter) if isinstance(parameter, str) else parameter


def name_in(segment: str) -> str:
    """Return the name that a segment of a path stands for."""
    return unquote(segment)


def _apart(segment: str) -> str:
    return segment.replace("%", "%25").replace("/", "%2F")
