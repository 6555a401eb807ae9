"""A database that is up to date is recognised without the migrations."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from penstock.core.errors import UsageError
from penstock.schematizer.storage.database import newest_revision, open_database

if TYPE_CHECKING:
    from pathlib import Path

OPEN = """
import sys
from penstock.schematizer.storage.database import open_database
open_database(sys.argv[1]).close()
print("alembic" in sys.modules)
"""


def test_the_newest_migration_is_the_last_by_name() -> None:
    config = Config()
    config.set_main_option("script_location", "penstock.schematizer.storage:migrations")
    config.set_main_option("path_separator", "os")

    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]


def test_a_start_on_a_database_that_is_up_to_date_loads_no_migrations(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'schematizer.db'}"
    open_database(url).close()

    told = subprocess.run([sys.executable, "-c", OPEN, url], capture_output=True, text=True, check=True, timeout=60)

    assert told.stdout == "False\n"


def test_a_file_in_a_folder_that_is_not_there_gets_its_folder(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/new/folder/schematizer.db").close()

    assert (tmp_path / "new" / "folder" / "schematizer.db").stat().st_size > 0


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match=r"folder .*file/folder cannot be made"):
        open_database(f"sqlite:///{tmp_path}/file/folder/schematizer.db")
