"""Rows that a server changes by itself because of a foreign key: their table stops, or they are read again."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest
from tests.servers.chain import make_chain

from penstock.core.snapshots import SnapshotOptions, Status
from penstock.embedded.mysql import start_mysql
from penstock.jobs.in_process import carry_link
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

_PARENT = "CREATE TABLE parents (id INT PRIMARY KEY, code INT UNIQUE, name VARCHAR(20))"
_CHILD = "CREATE TABLE {} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {} {})"


# From MySQL 9.6 on the server does itself what foreign keys say, and logs it; before that, and if told to, InnoDB does.
LOGGED, UNLOGGED = (pytest.param(kind, marks=pytest.mark.nightly) for kind in ("mysql_server", "innodb_mysql"))


@pytest.fixture(scope="module")
def innodb_mysql(servers_home: Path, mysql_package: DebianPackage) -> Iterator[OracleMysql]:
    """A MySQL that leaves foreign keys to InnoDB, whose changes are not in the log."""
    del mysql_package
    with start_mysql(servers_home / "innodb_mysql", options=["--innodb-native-foreign-keys=ON"]) as server:
        yield server


@pytest.fixture
def started(
    request: pytest.FixtureRequest, chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> Callable[..., Chain]:
    """Start a pipeline whose tables these statements make, and fill them: of MariaDB, if a test says no other."""
    kind = getattr(request, "param", "mariadb")
    server: MariadbServer | OracleMysql = request.getfixturevalue(kind)
    kafka, schematizer, tracker_port = chain_parts
    if kind != "mariadb":
        tracker_port = request.getfixturevalue("mysql_tracker_server").port
    chain = make_chain(tmp_path, fresh_name, server, (kafka, schematizer, tracker_port))
    replace(chain, name="mysql").write(f"CREATE DATABASE {fresh_name}")

    def start(*statements: str, without: str = "", cascades: str = "stop") -> Chain:
        chain.file.write_text(
            chain.file.read_text().replace("start: snapshot", f"start: snapshot\n    cascades: {cascades}")
        )
        if without:
            text = chain.file.read_text()
            wanted = f'["{fresh_name}.*"'
            chain.file.write_text(text.replace(wanted, f'{wanted}, "!{fresh_name}.{without}"'))
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


@pytest.mark.nightly
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
    (hint,) = (table.hint for table in chain.status().tables if table.error)
    assert (
        f"`cascades: reread`, start the pipeline again, and type once: penstock snapshot FILE {chain.name}.children"
        in hint
    )
    chain.file.write_text(chain.file.read_text().replace("cascades: stop", "cascades: reread"))
    ask_for_snapshots(chain.spec, [f"{chain.name}.children"], SnapshotOptions())
    settle(chain)
    chain.write("UPDATE parents SET code = 12 WHERE id = 7")
    settle(chain)
    assert stopped(chain) == {}
    assert chain.query("SELECT id, p FROM {schema}.children") == [(1, 12)]


def test_a_parent_that_is_not_carried_is_watched_also_when_the_key_comes_later(started: Callable[..., Chain]) -> None:
    chain = started(
        "CREATE TABLE children (id INT PRIMARY KEY, p INT)", "INSERT INTO children VALUES (1, 1)", without="parents"
    )
    chain.write("DELETE FROM parents WHERE id = 3")
    chain.carry()
    assert stopped(chain) == {}
    # Both are read at once.
    chain.write(
        "ALTER TABLE children ADD FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE",
        "DELETE FROM parents WHERE id = 1",
    )
    chain.carry()

    assert set(stopped(chain)) == {"children"}


# Every rule, on keys of one column and of two, of numbers and texts, and two steps and more down.
FAMILY = (
    (
        "CREATE TABLE kids (id INT PRIMARY KEY, p INT, x INT, UNIQUE (x), "
        "FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE followers (id INT PRIMARY KEY, c INT, t VARCHAR(20) COLLATE utf8mb4_unicode_ci UNIQUE, "
        "FOREIGN KEY (c) REFERENCES parents (code) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE keyed (p INT, n INT, PRIMARY KEY (p, n), "
        "FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE pairs (id INT PRIMARY KEY, a INT, b INT, "
        "FOREIGN KEY (a, b) REFERENCES keyed (p, n) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE grandkids (id INT PRIMARY KEY, k INT, f VARCHAR(20) COLLATE utf8mb4_unicode_ci, "
        "FOREIGN KEY (k) REFERENCES kids (id) ON DELETE CASCADE, "
        "FOREIGN KEY (f) REFERENCES followers (t) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE fans (id INT PRIMARY KEY, f VARCHAR(20) COLLATE utf8mb4_unicode_ci, "
        "FOREIGN KEY (f) REFERENCES followers (t) ON UPDATE CASCADE)"
    ),
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
)
COLUMNS = {
    "parents": "id, code, name",
    "kids": "id, p, x",
    "followers": "id, c, t",
    "keyed": "p, n",
    "pairs": "id, a, b",
    "grandkids": "id, k, f",
    "fans": "id, f",
    "tree": "id, up",
}


def settle(chain: Chain) -> None:
    """Carry everything, and what is to be read again."""
    chain.capture()
    carry_link(chain.spec, chain.source, 1)
    chain.write_objects()
    chain.load()


def differences(chain: Chain) -> dict[str, object]:
    """What the target and the source have each, by table, where that is not the same."""
    found: dict[str, object] = {}
    with chain.cursor() as cursor:
        for table, columns in COLUMNS.items():
            cursor.execute(f"SELECT {columns} FROM {table}")
            there = sorted(map(repr, cursor.fetchall()))
            here = sorted(map(repr, chain.query(f"SELECT {columns} FROM {{schema}}.{table}")))
            if here != there:
                found[table] = (here, there)
    return found


@pytest.mark.parametrize("started", ["mariadb", UNLOGGED], indirect=True)
def test_rows_that_foreign_keys_change_are_read_again_and_a_table_without_a_key_stops(
    started: Callable[..., Chain],
) -> None:
    chain = started(
        *FAMILY,
        "CREATE TABLE keyless (p INT, FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE)",
        "INSERT INTO kids VALUES (1, 1, 5), (2, 2, 6), (3, 1, 7)",
        "INSERT INTO followers VALUES (1, 10, 'é'), (2, 20, 'b'), (3, 30, 'c')",
        "INSERT INTO keyed VALUES (1, 1), (2, 1), (3, 1)",
        "INSERT INTO pairs VALUES (1, 1, 1), (2, 2, 1), (3, 3, 1)",
        "INSERT INTO grandkids VALUES (1, 1, 'é'), (2, 2, 'b'), (3, 3, 'c')",
        "INSERT INTO fans VALUES (3, 'c')",
        "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
        "INSERT INTO keyless VALUES (1)",
        cascades="reread",
    )

    chain.write(
        "BEGIN",
        "UPDATE parents SET code = 31 WHERE id = 3",
        "UPDATE followers SET t = 'it''s ü' WHERE id = 3",
        "DELETE FROM parents WHERE id = 1",
        "INSERT INTO kids VALUES (9, 3, 9)",
        "DELETE FROM tree WHERE id = 1",
        "COMMIT",
    )
    settle(chain)

    assert differences(chain) == {}
    found = stopped(chain)
    assert set(found) == {"keyless"}
    done = read_snapshots(chain.spec)
    assert {each.table.partition(".")[2] for each in done} == {*COLUMNS} - {"parents"}
    assert {each.status for each in done} == {Status.DONE}
    # Where no row can have gone, only those are read that may have changed.
    wheres = {each.table.partition(".")[2]: each.options.where for each in done}
    assert sorted(wheres["followers"].split(" OR ")) == ["`c` = 31", "`c` IS NULL"]
    assert "COLLATE utf8mb4_unicode_ci" in wheres["fans"]
    assert wheres["pairs"] == "`a` IS NULL AND `b` IS NULL"
    assert not any(each.options.full_refresh for each in done if each.options.where)


# A parent that is not there, children that are RESTRICT, and keys that are there already, also by a cascade.
REFUSED = {1062, 1451, 1452, 1761, 1762}


def random_statement(random: Random) -> str:
    """Something that people do to one of the tables; the server may refuse it."""
    some, other, new = (random.randint(1, 12) for _ in range(3))
    return random.choice(
        (
            f"INSERT INTO parents VALUES ({some}, {new * 10}, 'n{new}')",
            f"INSERT INTO kids VALUES ({new}, {some}, {other})",
            f"INSERT INTO followers VALUES ({new}, {some * 10}, 't{other}')",
            f"INSERT INTO keyed VALUES ({some}, {random.randint(1, 2)})",
            f"INSERT INTO pairs VALUES ({new}, {some}, {random.randint(1, 2)})",
            f"INSERT INTO grandkids VALUES ({new}, {some}, 't{other}')",
            f"INSERT INTO tree VALUES ({new}, {some})",
            f"INSERT INTO tree VALUES ({new}, NULL)",
            f"DELETE FROM parents WHERE id = {some}",
            f"DELETE FROM kids WHERE id = {some}",
            f"DELETE FROM followers WHERE id = {some}",
            f"DELETE FROM keyed WHERE p = {some}",
            f"DELETE FROM tree WHERE id = {some}",
            f"UPDATE parents SET id = {new}, code = {other * 10} WHERE id = {some}",
            f"UPDATE parents SET code = {new * 10}, name = 'm{other}' WHERE id = {some}",
            f"UPDATE parents SET name = 'x' WHERE id > {some}",
            f"REPLACE INTO parents VALUES ({some}, {new * 10}, 'r')",
            f"UPDATE followers SET t = 't{new}' WHERE id = {some}",
            f"UPDATE keyed SET n = {random.randint(1, 2)} WHERE p = {some}",
            f"UPDATE kids SET p = {new} WHERE id = {some}",
            f"UPDATE pairs SET a = {new} WHERE id = {some}",
        )
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("started", "seed", "rounds"),
    [
        *(("mariadb", seed, 20) for seed in range(2, 6)),
        ("mysql_server", 6, 10),
        ("innodb_mysql", 7, 10),
    ],
    indirect=["started"],
)
def test_whatever_foreign_keys_do_by_themselves_the_target_is_the_source(
    started: Callable[..., Chain], seed: int, rounds: int
) -> None:
    random = Random(seed)  # noqa: S311 - a test
    chain = started(
        *FAMILY, "INSERT INTO parents VALUES (4, 40, 'p'), (5, 50, 'p'), (6, 60, 'p'), (8, 80, 'p')", cascades="reread"
    )

    for _ in range(rounds):
        with chain.cursor() as cursor:
            for _ in range(40):
                statements = [random_statement(random) for _ in range(random.choice((1, 1, 3)))]
                cursor.execute("BEGIN")
                for statement in statements:
                    try:
                        cursor.execute(statement)
                    except pymysql.err.MySQLError as refused:
                        if refused.args[0] not in REFUSED:
                            raise
                cursor.execute("COMMIT" if random.random() < 0.9 else "ROLLBACK")
        settle(chain)

        assert differences(chain) == {}
        assert stopped(chain) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("started", ["mariadb", LOGGED, UNLOGGED], indirect=True)
def test_children_of_a_parent_that_is_not_carried_are_read_again_on_every_change_of_it(
    started: Callable[..., Chain],
) -> None:
    chain = started(
        "CREATE TABLE links (a INT, b INT, n INT, PRIMARY KEY (a, b), "
        "FOREIGN KEY (b) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        _CHILD.format("children", "parents (id)", "ON DELETE SET NULL ON UPDATE CASCADE"),
        "CREATE TABLE grandchildren (id INT PRIMARY KEY, a INT, b INT, "
        "FOREIGN KEY (a, b) REFERENCES links (a, b) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO links VALUES (1, 1, 1), (1, 2, 2), (2, 3, 3)",
        "INSERT INTO children VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO grandchildren VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3)",
        without="parents",
        cascades="reread",
    )

    for statement, links, children, grandchildren in (
        ("UPDATE parents SET name = 'x'", [(1, 1), (1, 2), (2, 3)], [(1, 1), (2, 2), (3, 3)], [(1, 1), (2, 2), (3, 3)]),
        (
            "UPDATE parents SET id = 9 WHERE id = 2",
            [(1, 1), (1, 9), (2, 3)],
            [(1, 1), (2, 9), (3, 3)],
            [(1, 1), (2, 9), (3, 3)],
        ),
        ("DELETE FROM parents WHERE id = 9", [(1, 1), (2, 3)], [(1, 1), (2, None), (3, 3)], [(1, 1), (3, 3)]),
        ("DELETE FROM parents", [], [(1, None), (2, None), (3, None)], []),
    ):
        chain.write(statement)
        settle(chain)

        assert sorted(chain.query("SELECT a, b FROM {schema}.links")) == links
        assert chain.query("SELECT id, p FROM {schema}.children ORDER BY id") == children
        assert chain.query("SELECT id, b FROM {schema}.grandchildren ORDER BY id") == grandchildren
        assert stopped(chain) == {}


@pytest.mark.nightly
def test_a_child_that_gets_another_name_before_it_is_read_again_stops_under_that_name(
    started: Callable[..., Chain],
) -> None:
    chain = started(
        _CHILD.format("children", "parents (id)", "ON DELETE SET NULL"),
        "INSERT INTO children VALUES (1, 1), (2, 2)",
        cascades="reread",
    )

    chain.write("DELETE FROM parents WHERE id = 1", "RENAME TABLE children TO kids", "INSERT INTO kids VALUES (3, 2)")
    settle(chain)

    found = stopped(chain)
    assert set(found) == {"kids"}
    assert "before all of its rows were read again" in found["kids"]
    (hint,) = (table.hint for table in chain.status().tables if table.error)
    ask_for_snapshots(chain.spec, [f"{chain.name}.kids"], SnapshotOptions())
    settle(chain)
    assert hint == f"penstock snapshot FILE {chain.name}.kids"
    assert stopped(chain) == {}
    assert sorted(chain.query("SELECT id, p FROM {schema}.kids")) == [(1, None), (2, 2), (3, 2)]
