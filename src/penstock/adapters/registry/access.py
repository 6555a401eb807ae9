"""How a registry is reached: its URL, who we are there, and which authority's certificate it has."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from penstock.config.secrets import secret
from penstock.core.errors import UsageError
from penstock.core.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_CONNECT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry, and how we sign in: by user and password, by a token, or not at all.

    Secrets are named by the environment variables that have them, so this
    travels to executors without any. `ca_file` is an authority to trust (PEM).
    """

    url: str
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None
    ca_file: Path | None = None

    def open_client(self, timeout_seconds: float) -> httpx.Client:
        """Return a client that signs in; nothing is sent yet.

        Raises UsageError for what is not an HTTP URL, a variable that is not set
        and a file that is no certificate.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            shown = self.url.rpartition("@")[2] if "@" in self.url else self.url
            message = f"{shown!r} is not the URL of a schematizer"
            raise UsageError(message, "write it like http://127.0.0.1:8081")
        # A machine that is gone answers nothing at all: whoever has schemas on disk need not wait for long.
        timeout = httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS))
        return httpx.Client(
            base_url=self.url.rstrip("/"),
            timeout=timeout,
            auth=self._auth(),
            verify=self._trusted(parts.scheme),
            # http_proxy of the environment is for others' machines: a proxy would look for this registry on its own.
            trust_env=not is_loopback(parts.hostname),
        )

    def _auth(self) -> httpx.Auth | None:
        if self.token_env:
            return _Bearer(secret(self.token_env))
        if self.user and self.password_env:
            return httpx.BasicAuth(self.user, secret(self.password_env))
        return None

    def _trusted(self, scheme: str) -> ssl.SSLContext | bool:
        if self.ca_file is None:
            # Reading the machine's authorities takes a tenth of a second, in every task that asks the registry.
            return True if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            message = f"the certificate of an authority {self.ca_file} cannot be used: {error}"
            raise UsageError(message, "give a file in PEM") from error


class _Bearer(httpx.Auth):
    """A token, sent to the registry itself and to nobody that it would redirect to."""

    def __init__(self, token: str) -> None:
        self._value = f"Bearer {token}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._value
        yield request
