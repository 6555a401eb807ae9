"""The data of a PostgreSQL server that does not run, copied for a standby of it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer


def copy_as_standby(first: PostgresServer, home: Path, *, has_slots: bool) -> None:
    """Copy a server that was stopped, as a standby that has received everything and has the slots, or none."""
    shutil.copytree(first.home, home, symlinks=True)
    (home / "port").unlink()
    owner = (first.home / "data/PG_VERSION").stat()
    if not has_slots:
        shutil.rmtree(home / "data/pg_replslot")
        (home / "data/pg_replslot").mkdir(mode=0o700)
    (home / "data/standby.signal").touch()
    for path in [home / "data", *(home / "data").rglob("*")]:
        os.chown(path, owner.st_uid, owner.st_gid)
