"""Transactions of the registry that its database gives up for others run again, and not for ever."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from penstock.core.errors import UnavailableError
from penstock.schematizer.storage.database import open_database

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

# What the servers say to whom they chose to end a deadlock, and where two transactions cannot be put in an order.
GIVE_UP = {
    "deadlock": "DO $$ BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END $$",
    "order": "DO $$ BEGIN RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001'; END $$",
    "mariadb": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'",
}


@pytest.mark.parametrize(
    ("state_url", "gives_up"),
    [
        ("postgres", "deadlock"),
        ("postgres", "order"),
        pytest.param("mariadb", "mariadb", marks=pytest.mark.nightly),
    ],
    indirect=["state_url"],
)
def test_a_write_that_the_database_gives_up_runs_again_until_it_has_lost_some_times(
    state_url: str, gives_up: str
) -> None:
    tries: list[int] = []

    def lose(session: Session, times: int) -> int:
        tries.append(1)
        if len(tries) <= times:
            session.execute(text(GIVE_UP[gives_up]))
        return len(tries)

    with closing(open_database(state_url)) as database:
        assert database.write(lambda session: lose(session, 2)) == 3
        tries.clear()
        with pytest.raises(UnavailableError, match="other writers were first 5 times"):
            database.write(lambda session: lose(session, 99))

    assert len(tries) == 5
