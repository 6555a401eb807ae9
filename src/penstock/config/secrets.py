"""Secrets: the config names environment variables, and this is where they are read."""

from __future__ import annotations

import os

from penstock.core.errors import UsageError


def secret(name: str) -> str:
    """Read the environment variable `name`; it may be empty. UsageError names it if it is not set."""
    value = os.environ.get(name)
    if value is None:
        message = f"the environment variable {name} is not set; the config says that it holds a secret"
        raise UsageError(message, f"set it before you start: export {name}=...")
    return value


def is_set(name: str) -> bool:
    """Whether the environment variable `name` is there."""
    return name in os.environ
