"""The state database as an SQLite file: what is special about it. What all have in common is in tests/servers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from penstock.adapters.state.database import open_engine
from penstock.adapters.state.migrate import NEWEST, VERSION_TABLE, has_current_tables, migrate
from penstock.adapters.state.revisions import migrations
from penstock.adapters.state.store import open_state
from penstock.adapters.state.tables import METADATA
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from pathlib import Path

OPEN = """
import sys
from penstock.adapters.state.store import open_state
print("ready", flush=True)
sys.stdin.readline()
state = open_state(sys.argv[1], "shop")
state.add_rows("l", {"shop.orders": (1, 1)})
"""


OPEN_WITHOUT_ALEMBIC = """
import sys
from penstock.adapters.state.migrate import has_current_tables
from penstock.adapters.state.store import open_state
assert has_current_tables(sys.argv[1])
open_state(sys.argv[1], "shop").close()
assert not any(name.partition(".")[0] in {"alembic", "mako"} for name in sys.modules)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/home/state.db"


def test_the_migrations_end_at_the_tables_we_use(url: str) -> None:
    open_state(url, "shop").close()
    engine = open_engine(url)

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        differences = compare_metadata(context, METADATA)

    engine.dispose()
    assert differences == []


def test_the_newest_revision_is_known_without_alembic() -> None:
    assert ScriptDirectory.from_config(migrations()).get_heads() == [NEWEST]


def test_a_database_with_the_newest_tables_is_opened_without_alembic(url: str) -> None:
    open_state(url, "shop").close()

    opened = subprocess.run(
        [sys.executable, "-c", OPEN_WITHOUT_ALEMBIC, url], check=False, capture_output=True, text=True, timeout=60
    )

    assert (opened.returncode, opened.stderr) == (0, "")


def test_what_was_written_is_there_after_a_restart(url: str) -> None:
    before = open_state(url, "shop")
    before.save_position("shopdb", BinlogPosition("bin.000007", 4), 9, {"t-0": 1}, {})
    before.close()

    after = open_state(url, "shop")

    assert after.position("shopdb") == (BinlogPosition("bin.000007", 4), 9)
    after.close()


def test_processes_that_start_together_do_not_disturb_each_other(url: str) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", OPEN, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(5)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"

    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    for starter in starters:
        starter.communicate(timeout=60)

    state = open_state(url, "shop")
    assert [starter.returncode for starter in starters] == [0] * 5
    assert [table.rows for table in state.tables()] == [5]
    state.close()


def test_a_new_file_that_another_process_is_making_is_waited_for(url: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    other = sqlite3.connect(tmp_path / "home" / "state.db", check_same_thread=False, isolation_level=None)
    other.execute("CREATE TABLE begun (a)")
    other.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.3, other.rollback)

    end.start()
    open_state(url, "shop").close()

    end.join()
    other.close()


def test_threads_share_a_state_and_lose_nothing(url: str) -> None:
    state = open_state(url, "shop")

    with ThreadPoolExecutor(8) as threads:
        for _ in range(100):
            threads.submit(state.add_rows, "l", {"shop.orders": (1, 1), "shop.users": (2, 1)})

    assert [(table.table, table.rows) for table in state.tables()] == [("shop.orders", 100), ("shop.users", 200)]
    state.close()


def test_a_migration_that_a_crash_interrupted_is_finished(url: str, tmp_path: Path) -> None:
    open_state(url, "shop").close()
    with sqlite3.connect(tmp_path / "home" / "state.db") as connection:
        connection.execute("DROP TABLE table_progress")
        connection.execute(f"DELETE FROM {VERSION_TABLE}")
    connection.close()

    state = open_state(url, "shop")

    assert state.tables() == []
    state.close()


def test_a_database_of_a_newer_release_is_left_alone(url: str, tmp_path: Path) -> None:
    open_state(url, "shop").close()
    with sqlite3.connect(tmp_path / "home" / "state.db") as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.close()

    with pytest.raises(UsageError, match="written by a newer release"):
        open_state(url, "shop")
    with pytest.raises(UsageError, match="written by a newer release"):
        has_current_tables(url)


def test_a_look_leaves_a_database_of_an_older_release_as_it_is_and_who_leads_migrates_it(
    url: str, tmp_path: Path
) -> None:
    older = ScriptDirectory.from_config(migrations()).get_revision(NEWEST).down_revision
    open_state(url, "shop").close()
    database = sqlite3.connect(tmp_path / "home" / "state.db")
    database.execute(f"UPDATE {VERSION_TABLE} SET version_num = ?", (older,))
    database.commit()

    with pytest.raises(UsageError, match="was written by an older release") as caught:
        open_state(url, "shop")

    assert "start this release's `penstock run`" in caught.value.hint
    assert database.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall() == [(older,)]
    migrate(url)
    open_state(url, "shop").close()
    database.close()


def test_examining_says_what_opening_will_do_and_does_not_do_it(url: str) -> None:
    assert not has_current_tables(url)
    assert not has_current_tables(url)

    open_state(url, "shop").close()

    assert has_current_tables(url)


def test_a_file_that_is_no_database_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "state.db").write_text("a pipeline's diary, not a database" * 100)

    with pytest.raises(Exception, match=r"state\.db refused a statement: file is not a database"):
        open_state(url, "shop")


def test_a_full_disk_is_worth_another_try(url: str, tmp_path: Path) -> None:
    open_state(url, "shop").close()
    state = open_state(url, "shop")
    with state._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(UnavailableError, match="disk is full") as caught:
        state.add_rows("l", {f"shop.t{number}": (1, 1) for number in range(1000)})

    assert "room on its disk" in caught.value.hint
    assert str(tmp_path) in caught.value.message
    state.close()


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(UsageError, match="cannot make the directory"):
        open_state(f"sqlite:///{tmp_path}/home/state.db", "shop")


@pytest.mark.parametrize("url", ["nonsense", "oracle://u:secret@h/d", "mssql://u:secret@h/d", "://u:secret@h"])
def test_a_url_that_cannot_work_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_state(url, "shop")

    assert "secret" not in str(caught.value)


def test_a_server_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(UnavailableError, match=r"mysql\+pymysql://u:\*\*\*@127\.0\.0\.1:1/d failed") as caught:
        open_state("mysql://u:secret@127.0.0.1:1/d", "shop")

    assert "secret" not in str(caught.value)
