"""Who may read the page, and who may act on it: users and roles as the Schematizer has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fastapi.responses import JSONResponse, PlainTextResponse

from penstock.config.web import WebSpec
from penstock.core.commands import shell_word
from penstock.core.hosts import is_loopback
from penstock.schematizer.http.guard import check_host, check_origin
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.access import ANYBODY, NOBODY, InNamespace, Role
from penstock.schematizer.security.rights import USER, user_of
from penstock.schematizer.security.sign_in import SignIn

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock.config.specs import PipelineSpec
    from penstock.schematizer.security.access import User

HEALTH = frozenset({"/healthz", "/readyz"})
"""What programs ask that cannot sign in: without a role they are told whether, and not why."""

ACTIONS = "/tables"
_HOST_HINT = "ask for 127.0.0.1; a proxy in front of the page is named in the file: web: {behind_proxy: ADDRESS}"
_CHALLENGE = 'Basic realm="penstock", charset="UTF-8", Bearer realm="penstock"'


class Guarded:
    """Lets requests through to those who may send them. Without users in the file, everybody on loopback may."""

    def __init__(self, app: ASGIApp, spec: PipelineSpec) -> None:
        """Stand before `app`; raises UsageError for a users file that is wrong."""
        users = spec.web and spec.web.users
        self._app = app
        self._spec = spec
        web = spec.web or WebSpec()
        # Users or none: `anonymous` may let everybody read. By TLS no other site has a certificate for its name here.
        self._is_on_loopback = is_loopback(web.host) and web.behind_proxy is None and web.tls is None
        self._sign_in = SignIn(users, Protection().failures) if users else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            if self._is_on_loopback:
                check_host(headers, _HOST_HINT)
            check_origin(scope["method"], headers)
            user = await self._user(scope, headers)
            if not may_read(user, self._spec) and scope["path"] not in HEALTH:
                raise _lacking(user, Role.READ)
        except RefusedError as refused:
            await refusal(refused, is_json=scope["path"] == ACTIONS)(scope, receive, send)
            return
        scope[USER] = user
        await self._app(scope, receive, send)

    async def _user(self, scope: Scope, headers: dict[bytes, bytes]) -> User:
        if self._sign_in is None:
            return ANYBODY
        address = scope["client"][0] if scope["client"] else ""
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        if scope["path"] in HEALTH and not authorization:
            return NOBODY
        return await self._sign_in.user(authorization, address)


def is_anonymous(scope: Scope, spec: PipelineSpec) -> bool:
    """Whether who asks has not signed in, and could: the users file lets everybody read."""
    return spec.web is not None and spec.web.users is not None and not user_of(scope).name


def may_read(user: User, spec: PipelineSpec) -> bool:
    """Whether a user may read the page, which tells of all sources of the file: the namespaces of their tables."""
    return all(user.may_in(Role.READ, InNamespace(source.name)) for source in spec.sources)


def may_act(spec: PipelineSpec) -> bool:
    """Whether the page offers actions."""
    return spec.web is None or spec.web.actions


def may_act_somewhere(user: User) -> bool:
    """Whether there is a table that a user may act on."""
    return user.may_somewhere(Role.WRITE)


def require_to_act_somewhere(user: User) -> None:
    """Raise RefusedError for a user who may act on no table at all."""
    if not may_act_somewhere(user):
        raise _lacking(user, Role.WRITE)


def require_to_act(user: User, spec: PipelineSpec, link: str) -> None:
    """Raise RefusedError unless a user may act on tables at `link`, a link or a source."""
    source = next((each.source for each in spec.links if each.name == link), link)
    if not user.may_in(Role.WRITE, InNamespace(source)):
        raise _lacking(user, Role.WRITE)


def refusal(refused: RefusedError, *, is_json: bool) -> Response:
    """What is answered to a request that is refused."""
    headers = {"Cache-Control": "no-store"}
    if refused.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = _CHALLENGE
    if refused.retry_after:
        headers["Retry-After"] = str(math.ceil(refused.retry_after))
    if is_json:
        return JSONResponse({"error": refused.message, "hint": refused.hint}, refused.code.status, headers)
    return PlainTextResponse(f"{refused.message}\nwhat to do: {refused.hint}\n", refused.code.status, headers)


def _lacking(user: User, role: Role) -> RefusedError:
    if not user.name:
        return RefusedError(Code.UNAUTHENTICATED, f"this needs the role {role}", "sign in")
    message = f"user {user.name!r} does not have the role {role} for this pipeline's tables"
    type_this = f"penstock schematizer user add {shell_word(user.name)} --users FILE --role {role} --password-env -"
    hint = f"whoever keeps the users file types: {type_this}"
    return RefusedError(Code.FORBIDDEN, message, hint)
