"""Sends one JSON object to a URL, which may be a secret and so is never told to anybody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import httpx

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 2.0
_TIMEOUT: Final = httpx.Timeout(10.0)
_FIRST_REFUSAL: Final = 300


def send(url: str, message: Mapping[str, object], pause_seconds: float = _PAUSE_SECONDS) -> None:
    """POST `message`; three times at most. Raises UnavailableError, without the URL, if nobody took it."""
    said = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(pause_seconds)
        try:
            response = httpx.post(url, json=dict(message), timeout=_TIMEOUT)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Its text may quote the URL.
            said = f"it could not be asked ({type(error).__name__})"
            continue
        if response.status_code < _FIRST_REFUSAL:
            return
        said = f"it answered with status {response.status_code}"
    text = f"the webhook did not take the alert: {said}"
    raise UnavailableError(text, "check the URL in the variable that webhook_env names, and the way to it")
