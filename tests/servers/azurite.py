"""Azurite, Microsoft's own server of Azure's protocol, on loopback: it checks keys and signatures as Azure does.

`scripts/install_for_tests.sh` fetches it into the cache.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx
import pytest

from penstock.embedded.cache import cache_directory
from penstock.embedded.ports import LOOPBACK, free_port, is_listening
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ACCOUNT = "penstock"
KEY = base64.b64encode(b"penstock-secret").decode()
CONTAINER = "penstock"

_MAIN = "node_modules/azurite/dist/src/blob/main.js"
_START_SECONDS = 60.0
_HOUR = 3600.0
_MAY = "rcwdl"
_VERSION = "2020-08-04"
"""Of the tokens: those of later versions name a scope of encryption as well."""


@dataclass(frozen=True, slots=True)
class AzuriteServer(OneProcessServer):
    """A running server with one account and one container in it."""

    @property
    def endpoint(self) -> str:
        """Its URL, as Azure's clients take it: the account is in the path."""
        return f"http://{self.host}:{self.port}/{ACCOUNT}"


def start_azurite(home: Path) -> AzuriteServer:
    """Start a server with its data under `home`; the test skips where Azurite is not installed."""
    main = cache_directory("azurite") / _MAIN
    if not main.exists() or shutil.which("node") is None:
        pytest.skip("no Azurite here: sh scripts/install_for_tests.sh installs it")
    home.mkdir()
    port = free_port()
    place = ["--blobHost", LOOPBACK, "--blobPort", str(port), "--location", str(home)]
    command = ["node", str(main), *place, "--silent", "--disableTelemetry"]
    child = start_child("Azurite", command, home / "azurite.log", {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"})
    wait_until_ready(child, lambda: is_listening(port), _START_SECONDS)
    server = AzuriteServer(port, home, child)
    made = httpx.put(f"{server.endpoint}/{CONTAINER}?restype=container&{_account_token()}", timeout=10)
    assert made.status_code == HTTPStatus.CREATED, made.text
    return server


def container_token(valid_seconds: float = _HOUR) -> str:
    """A shared access signature for the container ("Create a service SAS" of Azure's reference).

    Not for the account: with such a one, Azurite knows no deletion of several files in one request.
    """
    until, resource = _until(valid_seconds), f"/blob/{ACCOUNT}/{CONTAINER}"
    lines = [_MAY, "", until, resource, "", "", "", _VERSION, "c", "", "", "", "", "", ""]
    return urlencode({"sv": _VERSION, "sr": "c", "sp": _MAY, "se": until, "sig": _signature(lines)})


def _account_token() -> str:
    """A shared access signature that may make containers ("Create an account SAS" of Azure's reference)."""
    until = _until(_HOUR)
    lines = [ACCOUNT, _MAY, "b", "c", "", until, "", "", _VERSION, ""]
    return urlencode({"sv": _VERSION, "ss": "b", "srt": "c", "sp": _MAY, "se": until, "sig": _signature(lines)})


def _until(valid_seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + valid_seconds))


def _signature(lines: Sequence[str]) -> str:
    signature = hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256)
    return base64.b64encode(signature).decode()
