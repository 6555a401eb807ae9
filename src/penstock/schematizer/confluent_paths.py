"""Paths as Confluent's clients write them: a context may stand in front.

Source: Confluent Schema Registry API reference, "Contexts".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.schematizer.path_segments import name_in

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
CONTEXT = "confluent_context"
ROOTS = ("subjects", "schemas", "config", "mode", "compatibility", "contexts", "associations")
_FRONT = "/contexts/"


class ContextInFront:
    """Middleware that takes `/contexts/{context}` off the front of a path whose segments are kept apart."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on the request; `scope[CONTEXT]` is the context's name where there is one."""
        if scope["type"] == "http" and scope["path"].startswith(_FRONT):
            segment, slash, rest = scope["path"].removeprefix(_FRONT).partition("/")
            if slash:
                name = name_in(segment).strip(":")
                scope = {**scope, "path": f"/{rest}", CONTEXT: name if name.startswith(".") else f".{name}"}
        await self._app(scope, receive, send)
