"""Rows that a server changes by itself because of a foreign key: their table stops, for nobody can know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_PARENT = "CREATE TABLE parents (id INT PRIMARY KEY, code INT UNIQUE, name VARCHAR(20))"
_CHILD = "CREATE TABLE {} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {} {})"


@pytest.fixture
def started(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> Callable[..., Chain]:
    """Start a pipeline whose tables these statements make, and fill them."""

    def start(*statements: str, without: str = "") -> Chain:
        chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
        if without:
            text = chain.file.read_text()
            wanted = f'["{fresh_database}.*"'
            chain.file.write_text(text.replace(wanted, f'{wanted}, "!{fresh_database}.{without}"'))
        chain.write(_PARENT, "INSERT INTO parents VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')", *statements)
        chain.start()
        chain.carry()
        return chain

    return start


def stopped(chain: Chain) -> dict[str, str]:
    """The names of the tables that are stopped, and why."""
    chain.mirror()
    return {table.table.partition(".")[2]: table.error for table in chain.status().tables if table.error}


def test_children_that_are_deleted_with_their_parent_stop_and_so_do_theirs_and_no_other_table(
    started: Callable[..., Chain],
) -> None:
    chain = started(
        _CHILD.format("children", "parents (id)", "ON DELETE CASCADE"),
        _CHILD.format("grandchildren", "children (id)", "ON DELETE SET NULL"),
        _CHILD.format("strict", "parents (id)", "ON DELETE RESTRICT"),
        "CREATE TABLE others (id INT PRIMARY KEY)",
        "INSERT INTO children VALUES (1, 1), (2, 2)",
        "INSERT INTO grandchildren VALUES (1, 1), (2, 2)",
        "INSERT INTO strict VALUES (1, 3)",
    )
    chain.write("UPDATE parents SET name = 'x' WHERE id = 1", "INSERT INTO children VALUES (3, 3)")
    chain.carry()
    assert stopped(chain) == {}

    chain.write("DELETE FROM parents WHERE id = 1", "INSERT INTO strict VALUES (2, 3)", "INSERT INTO others VALUES (1)")
    chain.carry()

    found = stopped(chain)
    assert set(found) == {"children", "grandchildren"}
    assert f"rows of {chain.name}.parents were deleted or got another key" in found["children"]
    assert chain.query("SELECT id FROM {schema}.parents ORDER BY id") == [(2,), (3,)]
    assert chain.query("SELECT id FROM {schema}.strict ORDER BY id") == [(1,), (2,)]
    assert chain.query("SELECT id FROM {schema}.others") == [(1,)]


def test_a_parents_new_key_stops_children_that_follow_it_and_another_value_does_not(
    started: Callable[..., Chain],
) -> None:
    chain = started(
        _CHILD.format("children", "parents (code)", "ON UPDATE CASCADE"), "INSERT INTO children VALUES (1, 10)"
    )
    chain.write("UPDATE parents SET name = 'x', id = 7 WHERE id = 1")
    chain.carry()
    assert stopped(chain) == {}

    chain.write("UPDATE parents SET code = 11 WHERE id = 7")
    chain.carry()

    assert set(stopped(chain)) == {"children"}


def test_a_parent_that_is_not_carried_is_watched_also_when_the_key_comes_later(started: Callable[..., Chain]) -> None:
    chain = started(
        "CREATE TABLE children (id INT PRIMARY KEY, p INT)", "INSERT INTO children VALUES (1, 1)", without="parents"
    )
    chain.write("DELETE FROM parents WHERE id = 3")
    chain.carry()
    assert stopped(chain) == {}
    chain.write("ALTER TABLE children ADD FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE")
    chain.carry()

    chain.write("DELETE FROM parents WHERE id = 1")
    chain.carry()

    assert set(stopped(chain)) == {"children"}
