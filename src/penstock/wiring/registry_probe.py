"""Asks a Schematizer whether it is there, and takes our login."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from penstock.core.errors import UnavailableError, UnfitServerError
from penstock.wiring.open import registry_access

if TYPE_CHECKING:
    from penstock.config.specs import SchematizerSpec

# Whoever may do anything may ask for this, and it needs the registry's database.
_PATH = "/config"
_NOT_LET_IN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def probe_registry(spec: SchematizerSpec, timeout_seconds: float) -> None:
    """Return if it answers.

    Raises UnavailableError when it cannot be reached just now and UnfitServerError
    when it refuses the login, or is no Schematizer.
    """
    try:
        with registry_access(spec).open_client(timeout_seconds) as client:
            answer = client.get(_PATH)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"the Schematizer at {spec.url} does not answer: {error}"
        raise UnavailableError(message, "check that it runs there: penstock schematizer serve") from error
    if answer.status_code in _NOT_LET_IN:
        message = f"the Schematizer at {spec.url} refused the login (status {answer.status_code})"
        raise UnfitServerError(
            message, "check schematizer.user, password_env and token_env, and the user's roles there"
        )
    if answer.is_server_error:
        message = f"the Schematizer at {spec.url} answers with status {answer.status_code}"
        raise UnavailableError(message, "see what it says, and whether its database runs")
    if not answer.is_success:
        message = f"{spec.url}{_PATH} answers with status {answer.status_code}; a Schematizer answers with 200"
        raise UnfitServerError(message, "check schematizer.url")
