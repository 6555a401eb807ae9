"""Random statements, DDL most of all, on real servers: who follows the log has what a SELECT returns, or was stopped.

Short as a test; `make fuzz` goes on for longer.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from tests.servers.ddl_words import OF_MARIADB, OF_MYSQL, stories
from tests.servers.followed_log import FollowedLog
from tests.servers.story_teller import StoryTeller

from penstock.core.table_policy import TablePolicy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.servers.source_log import Source

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

_SCHEMA: Final = "ddl_fuzz"
_SETTINGS: Final = settings(
    # Every example is a conversation with two servers of a second.
    max_examples=settings().max_examples // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_STEP: Final = 6


def _check(source: Source, tracker: Source, story: Sequence[str], home: Path) -> None:
    with (
        closing(FollowedLog.open(source, tracker, _SCHEMA, TablePolicy("as_text"), home)) as log,
        closing(StoryTeller.open(source, _SCHEMA)) as teller,
    ):
        try:
            for begin in range(0, len(story), _STEP):
                teller.tell(story[begin : begin + _STEP])
                log.follow()
                log.check()
        except BaseException:
            hypothesis.note("\n".join([*teller.told, *(f"{t}: {why.error}" for t, why in log.stopped.items())]))
            raise


@given(story=stories(OF_MARIADB))
@_SETTINGS
def test_on_mariadb_tables_are_followed_or_stopped(
    mariadb: MariadbServer, tracker_server: MariadbServer, tmp_path: Path, story: Sequence[str]
) -> None:
    _check(mariadb, tracker_server, story, tmp_path)


@pytest.mark.nightly
@given(story=stories(OF_MYSQL))
@_SETTINGS
def test_on_mysql_tables_are_followed_or_stopped(
    mysql_server: OracleMysql, mysql_tracker_server: OracleMysql, tmp_path: Path, story: Sequence[str]
) -> None:
    _check(mysql_server, mysql_tracker_server, story, tmp_path)
