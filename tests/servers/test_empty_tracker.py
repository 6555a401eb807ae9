"""A capture that begins at the start of the log knows none of the tables that an earlier try left on its tracker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.servers.followed_log import FollowedLog

from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.mariadb import MariadbServer


def test_what_was_left_on_the_tracker_is_gone_when_a_capture_starts_empty(
    mariadb: MariadbServer, tracker_server: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    with closing(FollowedLog.open(mariadb, tracker_server, fresh_name, DEFAULT_POLICY, tmp_path)) as followed:
        followed.tracker.apply(f"CREATE DATABASE {fresh_name}", "")
        followed.tracker.apply("CREATE TABLE left_over (id INT PRIMARY KEY)", fresh_name)
        assert TableId(fresh_name, "left_over") in followed.tracker.tables()

        followed.handler.start_empty()

        assert followed.tracker.tables() == []
        followed.tracker.apply(f"CREATE DATABASE {fresh_name}", "")
        followed.tracker.apply("CREATE TABLE left_over (id INT, more INT)", fresh_name)
