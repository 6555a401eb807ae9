"""State databases over time: older revisions, several starters at once, servers that go away, a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import BigInteger, Engine, Float, MetaData, select, text
from tests.servers.fresh_databases import state_database
from tests.servers.kinds import NIGHTLY_DATABASES, STATE_DATABASES, first, on_every_database

from penstock.adapters.state.database import open_engine, transaction
from penstock.adapters.state.migrate import VERSION_TABLE, has_current_tables, migrate
from penstock.adapters.state.revisions import migrations
from penstock.adapters.state.store import open_state
from penstock.adapters.state.tables import METADATA
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.positions import BinlogPosition
from penstock.dev.postgres import start_postgres
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql
from penstock.ports.state import TrackerDump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

MOUNT, UMOUNT = "/bin/mount", "/bin/umount"
CONFIG = migrations()
SCRIPT = ScriptDirectory.from_config(CONFIG)
# Oldest first.
REVISIONS = [revision.revision for revision in SCRIPT.walk_revisions()][::-1]
# What is read as JSON.
TEXTS = {"prepared": '[["ÿ😀", "binlog.000001", 4]]'}
OPEN = """
import sys
from contextlib import closing, contextmanager
from penstock.adapters.state.migrate import migrate
from penstock.adapters.state.revisions import migrations
from penstock.adapters.state.store import open_state
print("ready", flush=True)
sys.stdin.readline()
migrate(sys.argv[1])
with closing(open_state(sys.argv[1], "shop")) as state:
    state.add_rows("l", {"shop.orders": (1, 1)})
"""


def from_every_revision(*databases: str) -> pytest.MarkDecorator:
    """Begin with each revision on `databases`, and for every change with the oldest alone on the others."""

    def daily(database: str, revision: str) -> bool:
        return database in databases or (database not in NIGHTLY_DATABASES and revision == REVISIONS[0])

    pairs = [(database, revision) for database in STATE_DATABASES for revision in REVISIONS[:-1]]
    cases = [pytest.param(*pair, marks=() if daily(*pair) else pytest.mark.nightly) for pair in pairs]
    return pytest.mark.parametrize(("state_url", "revision"), cases, indirect=["state_url"])


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    yield engine
    engine.dispose()


def upgrade(engine: Engine, revision: str) -> None:
    with transaction(engine, begin="BEGIN IMMEDIATE") as connection:
        CONFIG.attributes["connection"] = connection
        command.upgrade(CONFIG, revision)


def rows_of(engine: Engine) -> dict[str, list[dict[str, object]]]:
    """Every row of every table there is, by table."""
    metadata = MetaData()
    metadata.reflect(engine)
    with transaction(engine) as connection:
        return {
            name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for name, table in metadata.tables.items()
        }


def fill(engine: Engine) -> None:
    """Write a row into every table there is but Alembic's own, unless it has one."""
    metadata = MetaData()
    metadata.reflect(engine)
    with transaction(engine) as connection:
        for name, table in metadata.tables.items():
            if name == VERSION_TABLE or connection.execute(select(table)).first() is not None:
                continue
            values = {
                column.name: 2**40
                if isinstance(column.type, BigInteger)
                else 0.5
                if isinstance(column.type, Float)
                else TEXTS.get(column.name, "ÿ😀")
                for column in table.columns
            }
            connection.execute(table.insert().values(values))


@on_every_database
def test_the_migrations_end_at_the_tables_we_use(state_url: str) -> None:
    open_state(state_url, "shop").close()

    with engine_of(state_url) as engine, engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        differences = compare_metadata(context, METADATA)

    assert differences == []


@on_every_database
def test_each_migration_keeps_what_its_predecessor_left(state_url: str) -> None:
    with engine_of(state_url) as engine:
        upgrade(engine, REVISIONS[0])
        for revision in REVISIONS[1:]:
            fill(engine)
            before = rows_of(engine)

            upgrade(engine, revision)

            assert_kept(before, rows_of(engine))


def assert_kept(before: dict[str, list[dict[str, object]]], after: dict[str, list[dict[str, object]]]) -> None:
    """All that was in the tables is in them, whatever there is beside it."""
    del before[VERSION_TABLE]
    kept = {
        name: [{key: row[key] for key in old} for old, row in zip(rows, after[name], strict=True)]
        for name, rows in before.items()
    }
    assert kept == before


@from_every_revision("sqlite")
def test_a_migration_from_an_older_revision_keeps_what_is_there(state_url: str, revision: str) -> None:
    with engine_of(state_url) as engine:
        upgrade(engine, revision)
        fill(engine)
        before = rows_of(engine)

    assert not has_current_tables(state_url)
    migrate(state_url)

    with engine_of(state_url) as engine:
        assert_kept(before, rows_of(engine))
    state = open_state(state_url, "ÿ😀")
    assert [link.state for link in state.links()] == ["ÿ😀"]
    assert [table.rows for table in state.tables()] == [2**40]
    assert state.tracker_dump("ÿ😀") is not None
    assert state.position("ÿ😀") is not None
    state.close()


@from_every_revision("sqlite", "mariadb")
def test_a_migration_that_a_crash_interrupted_is_finished(state_url: str, revision: str) -> None:
    """MySQL commits each statement by itself: all of them may be done, and their revision not written down."""
    open_state(state_url, "shop").close()
    with engine_of(state_url) as engine, transaction(engine) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))

    migrate(state_url)

    state = open_state(state_url, "shop")

    state.add_rows("a", {"shop.orders": (1, 1)})
    assert [table.rows for table in state.tables()] == [1]
    state.close()


@on_every_database
@pytest.mark.parametrize("revision", first(1, REVISIONS[0], None, *REVISIONS[1:-1]))
def test_instances_that_migrate_at_once_all_succeed(state_url: str, revision: str | None) -> None:
    if revision is not None:
        with engine_of(state_url) as engine:
            upgrade(engine, revision)
    starters = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", OPEN, state_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"

    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    said = [starter.communicate(timeout=120)[1] for starter in starters]

    assert said == [""] * 3
    state = open_state(state_url, "shop")
    assert [table.rows for table in state.tables()] == [3]
    state.close()


@on_every_database
def test_a_look_leaves_a_database_of_an_older_release_as_it_is(state_url: str) -> None:
    with engine_of(state_url) as engine:
        upgrade(engine, REVISIONS[-2])
        before = rows_of(engine)

        with pytest.raises(UsageError, match="was written by an older release"):
            open_state(state_url, "shop")

        assert rows_of(engine) == before


def test_a_database_of_a_newer_release_is_named_and_left_alone(state_url: str) -> None:
    open_state(state_url, "shop").close()
    with engine_of(state_url) as engine, transaction(engine) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))

    for look in (lambda: open_state(state_url, "shop"), lambda: has_current_tables(state_url)):
        with pytest.raises(UsageError, match=r"written by a newer release \(revision 9999\)") as caught:
            look()
        assert "upgrade Penstock here too" in caught.value.hint
        assert "penstock:penstock" not in str(caught.value)


@pytest.mark.parametrize("start", first(1, start_postgres, start_mysql, start_mariadb))
def test_a_server_that_goes_away_is_named_and_work_goes_on_when_it_is_back(
    request: pytest.FixtureRequest,
    start: Callable[[Path], MariadbServer | OracleMysql | PostgresServer],
    fresh_name: str,
    tmp_path: Path,
) -> None:
    if start is start_mysql:
        request.getfixturevalue("mysql_package")
    dump = TrackerDump(BinlogPosition("bin.000001", 4), "d" * 100_000)
    with ExitStack() as stack:
        server = start(tmp_path)
        stack.enter_context(server)
        url = stack.enter_context(state_database(server, fresh_name, keep=True))
        state = stack.enter_context(closing(open_state(url, "shop")))
        state.add_rows("a", {"shop.orders": (1, 1)})
        state.keep_tracker_dump("shopdb", dump)
        server.kill()

        with pytest.raises(UnavailableError, match=rf":{server.port}/{fresh_name}\S* failed") as caught:
            state.add_rows("a", {"shop.orders": (1, 1)})
        stack.enter_context(start(tmp_path))

        state.add_rows("a", {"shop.orders": (1, 1)})
        assert [table.rows for table in state.tables()] == [2]
        assert state.tracker_dump("shopdb") == dump
        assert "check that the database runs" in caught.value.hint


@contextmanager
def mounted_disk(place: Path, options: str) -> Iterator[Path]:
    """A file system of its own at `place`, which is made; skips where we may not mount one."""
    place.mkdir()
    mounted = subprocess.run(
        [MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this takes the right to mount a file system: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run([UMOUNT, "--lazy", str(place)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 1 MiB."""
    with mounted_disk(tmp_path / "disk", "size=1m") as place:
        yield place


def fill_up(file: Path) -> None:
    """Write until there is no room."""
    with file.open("wb", buffering=0) as opened:
        while True:
            opened.write(bytes(4096))


def test_a_full_disk_is_named_and_work_goes_on_when_there_is_room(small_disk: Path) -> None:
    state = open_state(f"sqlite:///{small_disk}/state.db", "shop")
    state.add_rows("a", {"shop.orders": (1, 1)})
    dump = TrackerDump(BinlogPosition("bin.000001", 4), "d" * 50_000)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill_up(filler)

    refused = 0
    for _ in range(100):
        try:
            state.keep_tracker_dump("shopdb", dump)
        except UnavailableError as error:
            refused += 1
            said = error
    before = state.tables()
    filler.unlink()
    state.keep_tracker_dump("shopdb", dump)
    state.add_rows("a", {"shop.orders": (1, 1)})
    state.close()

    assert refused == 100
    assert "disk is full" in said.message
    assert str(small_disk) in said.message
    assert "room on its disk" in said.hint
    assert [table.rows for table in before] == [1]
    again = open_state(f"sqlite:///{small_disk}/state.db", "shop")
    assert [table.rows for table in again.tables()] == [2]
    assert again.tracker_dump("shopdb") == dump
    again.close()
