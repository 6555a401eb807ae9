"""The packages that only some pipelines need, by the extra of pyproject.toml that brings them."""

from __future__ import annotations

_EXTRAS = {"postgres": "psycopg", "redshift": "redshift_connector", "snowflake": "snowflake", "zookeeper": "kazoo"}


def package_of(extra: str) -> str:
    """Return the name that the package of an extra is imported by."""
    return _EXTRAS[extra]


def extra_of(module: str | None) -> str | None:
    """Return the extra that brings a module, None if none does."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, brought in _EXTRAS.items() if brought == package), None)


def how_to_install(*extras: str) -> str:
    """Say what to type for these extras."""
    return f"type: pip install 'penstock[{','.join(extras)}]'"
