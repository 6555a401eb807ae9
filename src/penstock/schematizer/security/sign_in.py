"""Who sends a request: what its Authorization header proves.

Source: RFC 7617 (Basic) and RFC 6750 (Bearer). A password takes 0.1 s of CPU
to check, so what was proved once is remembered by a keyed hash, until the users
file changes. Failures are rationed by address: else anybody could keep the
service busy, or guess on. Passwords from one address are checked one after the
other, so that who sends many at once neither tries more of them than the ration
has, nor has everybody else wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import structlog

from penstock.core.errors import UsageError
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.credentials import hash_password, hash_token, is_password
from penstock.schematizer.security.users import read_users

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.schematizer.security.access import User
    from penstock.schematizer.security.rates import Rates
    from penstock.schematizer.security.users import Users

_log = structlog.get_logger()

_REMEMBERED_MAX = 10_000
_LOOK_SECONDS = 1.0
_CHECKS_AT_ONCE = 2


_HINT = "send user and password, or a token: ask who keeps the users file"


class SignIn:
    """Tells who sends a request. For use from one thread: the event loop's."""

    def __init__(self, file: Path, failures: Rates) -> None:
        """Read the users `file`; raises UsageError for one that is wrong. `failures` rations what one address tries."""
        self._file = file
        self._failures = failures
        self._seen = _stamp(file)
        self._users = read_users(file)
        self._looked_at = 0.0
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, User] = {}
        self._tokens = _by_token(self._users)
        # Who is not there is checked against this: it takes as long as who is.
        self._nobody = hash_password(secrets.token_urlsafe())
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def user(self, authorization: str, address: str) -> User:
        """Return who sends `authorization`, a header's value or "". Raises RefusedError for what proves nothing."""
        self._look()
        if not authorization:
            unknown = self._users.unknown()
            if unknown is None:
                raise RefusedError(Code.UNAUTHENTICATED, "this service wants to know who asks", _HINT)
            return unknown
        proof = hmac.digest(self._key, authorization.encode(), hashlib.sha256)
        known = self._remembered.get(proof)
        while known is None:
            users = self._users
            known = await self._check(proof, authorization, address)
            # Whoever was removed, or got another password, meanwhile has proved nothing.
            self._look()
            if self._users is not users:
                known = None
                continue
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[proof] = known
        return known

    async def _check(self, proof: bytes, authorization: str, address: str) -> User:
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "basic":
            self._require_ration(address)
            user = self._tokens.get(hash_token(value.strip())) if scheme.lower() == "bearer" else None
            return self._proved(user, address)
        async with self._turns.setdefault(address, asyncio.Lock()):
            # Who sent the same just before has proved it.
            if (known := self._remembered.get(proof)) is not None:
                return known
            self._require_ration(address)
            return self._proved(await self._check_password(value.strip()), address)

    def _require_ration(self, address: str) -> None:
        wait = self._failures.wait_seconds(address)
        if wait > 0:
            message = "there were too many failures to sign in from this address"
            raise RefusedError(Code.TOO_MANY_REQUESTS, message, "wait, and check user and password", retry_after=wait)

    def _proved(self, user: User | None, address: str) -> User:
        if user is None:
            self._failures.take(address)
            raise RefusedError(Code.UNAUTHENTICATED, "user and password, or token, are not right", _HINT)
        return user

    async def _check_password(self, value: str) -> User | None:
        try:
            name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        users = self._users
        entry = users.users.get(name)
        kept = entry.password if entry and entry.password else self._nobody
        async with self._checks:
            is_right = await asyncio.to_thread(is_password, password, kept)
        return users.user(name) if is_right and colon and entry and entry.password else None

    def _look(self) -> None:
        """Read the file again if it changed, at most once in a second; a wrong one is told and not used."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        stamp = _stamp(self._file)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._users = read_users(self._file)
        except UsageError as error:
            _log.error("users file is not used", reason=error.message, going_on_with="the users before")
            return
        self._remembered.clear()
        self._tokens = _by_token(self._users)


def _by_token(users: Users) -> dict[str, User]:
    return {kept: users.user(name) for name, entry in users.users.items() for kept in entry.tokens.values()}


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what differs once a file was written or replaced, None for one that is gone."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
