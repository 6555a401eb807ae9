"""Who may come in: middleware that signs in, counts and lets through.

Whoever may do a thing everywhere is not looked at twice: nothing is asked of
the database, and a request's body is not read here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi.concurrency import run_in_threadpool

from penstock.core.hosts import is_loopback
from penstock.schematizer.http.error_answers import DATABASE_AWAY, error_answer, explain_database
from penstock.schematizer.http.limits import Bodies, Replayed
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.access import ANYBODY, NOBODY, Role, User
from penstock.schematizer.security.demands import Demand, Somewhere, demand_of
from penstock.schematizer.security.rights import USER, Rights

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock.schematizer.http.protection import Protection
    from penstock.schematizer.security.sign_in import SignIn
    from penstock.schematizer.storage.database import Database

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ALLOWED_MAX = 10_000
_ALLOWED_SECONDS = 5.0
_FROM_HERE = frozenset({"same-origin", "none"})
_HOST_HINT = "ask for 127.0.0.1; or give it users; a proxy in front of it sends Host: 127.0.0.1"
_ANONYMOUS_HOST_HINT = "sign in, or ask for 127.0.0.1; for a proxy in front of it add --behind-proxy ADDRESS"


class Guarded:
    """Lets requests through to those who may send them. Without a `sign_in`, everybody may."""

    def __init__(self, app: ASGIApp, database: Database, sign_in: SignIn | None, protection: Protection) -> None:
        """Stand before `app`, behind what keeps the segments of paths apart."""
        self._app = app
        self._database = database
        self._sign_in = sign_in
        self._rates = protection.rates
        self._bodies = Bodies(protection.limits)
        self._is_on_loopback = protection.is_on_loopback
        self._allowed: dict[tuple[User, Demand], float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = None
        try:
            headers = dict(scope["headers"])
            if self._sign_in is None:
                check_host(headers)
            check_origin(scope["method"], headers)
            user = await self._signed_in(scope, headers)
            if self._is_on_loopback and not user.name:
                # A browser asks for a password only where it is challenged.
                check_host(headers, _ANONYMOUS_HOST_HINT, Code.UNAUTHENTICATED)
            scope[USER] = user
            # Nobody who has not signed in makes us hold a body.
            body = await self._bodies.read(scope, receive)
            if self._sign_in is not None and not user.may_everywhere(Role.ADMIN):
                await self._check(user, demand_of(scope, body or b""))
        except RefusedError as refused:
            await error_answer(refused, scope)(scope, receive, send)
        except DATABASE_AWAY as error:
            await error_answer(explain_database(error), scope)(scope, receive, send)
        else:
            await self._app(scope, receive if body is None else Replayed(body, receive), send)
        finally:
            self._bodies.let_go(body or b"")

    async def _signed_in(self, scope: Scope, headers: dict[bytes, bytes]) -> User:
        address = scope["client"][0] if scope["client"] else ""
        user = ANYBODY
        try:
            if self._sign_in is not None:
                user = NOBODY
                user = await self._sign_in.user(headers.get(b"authorization", b"").decode("latin-1"), address)
        finally:
            # Who fails to sign in is counted too.
            wait = self._rates.take(f"user {user.name}" if user.name else f"address {address}")
        if wait > 0:
            message = "there are more requests than this registry takes from one user or address"
            raise RefusedError(Code.TOO_MANY_REQUESTS, message, "wait, and ask less often", retry_after=wait)
        return user

    async def _check(self, user: User, demand: Demand) -> None:
        if user.may_everywhere(demand.role):
            return
        if user.may_somewhere(demand.role) and demand.targets and await self._is_allowed(user, demand):
            return
        raise _forbidden(user, demand)

    async def _is_allowed(self, user: User, demand: Demand) -> bool:
        """Tell whether the user has a role in all that is asked for; what may be read is known for some seconds."""
        if demand.targets == (Somewhere(),) and not demand.uses:
            return True
        now = time.monotonic()
        if self._allowed.get((user, demand), 0.0) > now:
            return True
        rights = Rights(user)
        asked = [(demand.role, each) for each in demand.targets if each != Somewhere()]
        asked += [(Role.READ, each) for each in demand.uses]
        allowed = await run_in_threadpool(
            self._database.read, lambda session: all(rights.may(session, role, each) for role, each in asked)
        )
        if allowed and demand.role is Role.READ:
            if len(self._allowed) >= _ALLOWED_MAX:
                self._allowed.clear()
            self._allowed[user, demand] = now + _ALLOWED_SECONDS
        return allowed


def _forbidden(user: User, demand: Demand) -> RefusedError:
    if not user.name:
        return RefusedError(Code.UNAUTHENTICATED, f"this needs the role {demand.role}", "sign in")
    where = "there" if demand.targets else "everywhere"
    message = f"user {user.name!r} does not have the role {demand.role} {where}"
    hint = "ask the registry's admin for the role" + (
        "" if demand.targets else ", or say namespace= where a list has it"
    )
    return RefusedError(Code.FORBIDDEN, message, hint)


def check_host(headers: dict[bytes, bytes], hint: str = _HOST_HINT, code: Code = Code.FORBIDDEN) -> None:
    """Refuse what a page of another site may have sent by a name of its own that leads here (DNS rebinding).

    Where nobody signs in, the name in the Host header is all that tells such a request.
    """
    told = headers.get(b"host", b"").decode("latin-1")
    try:
        host = urlsplit(f"//{told}").hostname or ""
    except ValueError:
        # Half of an address in brackets is nobody's name.
        host = told
    if host and not is_loopback(host):
        message = f"this service answers to names of this machine alone, and not to {host!r}"
        raise RefusedError(code, message, hint)


def check_origin(method: str, headers: dict[bytes, bytes]) -> None:
    """Refuse a change that another site's page makes a browser send, with its user's password.

    Source: Fetch Metadata Request Headers (W3C); RFC 6454, section 7, for
    browsers without them. Programs send neither header.
    """
    if method in _SAFE:
        return
    site = headers.get(b"sec-fetch-site", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if not site and not origin:
        return
    is_ours = site in _FROM_HERE if site else urlsplit(origin).netloc == headers.get(b"host", b"").decode("latin-1")
    if not is_ours:
        message = "a page of another site may not change anything here"
        raise RefusedError(Code.FORBIDDEN, message, "send it from this service's own pages, or from a program")
