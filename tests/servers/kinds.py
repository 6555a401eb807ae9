"""Which member of a kind a test runs on: for every change on the first ones, every night on all.

A test of what can differ between them, by dialect or by server, says so: `@on_every_target`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.clouds import CLOUDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _pytest.mark import ParameterSet

TARGETS = ("duckdb", "postgres", "redshift", "snowflake")
STATE_DATABASES = ("sqlite", "postgres", "mariadb", "mysql_server")

NIGHTLY_TARGETS = ("snowflake",)
"""Targets whose stand-in takes seconds for a test: only those of what can differ run on them, and every night."""
DAILY_TARGETS = tuple(target for target in TARGETS if target not in NIGHTLY_TARGETS)


def _others_at_night(members: Sequence[str], daily: Sequence[str]) -> list[str | ParameterSet]:
    return [each if each in daily else pytest.param(each, marks=pytest.mark.nightly) for each in members]


def on_targets(*daily: str) -> pytest.MarkDecorator:
    """Mark tests that run on these targets for every change, and every night on all."""
    return pytest.mark.parametrize("place", _others_at_night(TARGETS, daily), indirect=True)


on_every_target = on_targets(*DAILY_TARGETS)
NIGHTLY_DATABASES = ("mariadb", "mysql_server")
"""State databases that are proven every night, and for every change where a test names them."""

_DAILY_DATABASES = [database for database in STATE_DATABASES if database not in NIGHTLY_DATABASES]
on_every_database = pytest.mark.parametrize(
    "state_url", _others_at_night(STATE_DATABASES, _DAILY_DATABASES), indirect=True
)
on_every_cloud = pytest.mark.parametrize("cloud", _others_at_night(tuple(CLOUDS), ["s3"]), indirect=True)


def first(count: int, *values: object) -> list[object | ParameterSet]:
    """Parameters of which `count` run for every change, and the others every night; a tuple is one for each name."""
    by_night = [value if isinstance(value, tuple) else (value,) for value in values[count:]]
    return [*values[:count], *(pytest.param(*each, marks=pytest.mark.nightly) for each in by_night)]
