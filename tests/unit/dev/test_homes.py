"""A home that this user cannot use is told, and one that he can, though it is another user's, is used."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from penstock.adapters.lock.file import FileLock
from penstock.config.load import parse
from penstock.config.places import has_state
from penstock.core.errors import UsageError
from penstock.embedded.secrets import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65_534
_FILE = """\
pipeline: shop
home: {home}
sources:
  - {{name: shopdb, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}
"""


@contextmanager
def folder_of_another_user(rights: int) -> Iterator[Path]:
    """Be somebody who does not own this folder, for whose user others have `rights`."""
    is_root = os.geteuid() == 0
    # Of pytest's own folders nobody but their owner enters one.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o700 | rights << 3 | rights)
        if is_root:
            os.seteuid(_NOBODY)
            yield folder
        else:
            # Those that every system has.
            yield {0o7: Path(tempfile.gettempdir()), 0o5: Path("/usr")}.get(rights) or _closed(folder)
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def _closed(folder: Path) -> Path:
    folder.chmod(0)
    return folder


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(UsageError, match=r"cannot use the directory .*home: File exists") as caught:
        make_private(tmp_path / "home")

    assert "check the config's home" in caught.value.hint


def test_a_volume_that_we_may_write_to_is_used_as_it_is_with_a_warning() -> None:
    with folder_of_another_user(0o7) as folder:
        rights = folder.stat().st_mode

        with capture_logs() as logs:
            make_private(folder)

        assert folder.stat().st_mode == rights
    assert [each["event"] for each in logs] == ["a directory of another user's is used"]


def test_a_home_that_we_may_only_read_is_refused() -> None:
    with (
        folder_of_another_user(0o5) as folder,
        pytest.raises(UsageError, match=r"cannot use the directory .*: Operation not permitted"),
    ):
        make_private(folder)


def test_a_home_of_our_own_is_entered_by_nobody_else(tmp_path: Path) -> None:
    make_private(tmp_path / "shop" / "home")

    assert (tmp_path / "shop" / "home").stat().st_mode & 0o777 == 0o700


def test_whoever_may_not_look_into_a_home_is_told_who_may() -> None:
    with folder_of_another_user(0) as folder:
        spec = parse(_FILE.format(home=folder / "home"), "shop.yaml", Path("/"))

        with pytest.raises(UsageError, match=r"cannot read the lock file .*shop.lock: Permission denied") as locked:
            FileLock(folder / "home" / "shop.lock").holder()
        with pytest.raises(
            UsageError, match=r"cannot look for the state database .*state.db: Permission denied"
        ) as hidden:
            has_state(spec)

    assert locked.value.hint == hidden.value.hint == "type it as the user who runs the pipeline"


def test_a_lock_below_a_file_is_read_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(UsageError, match=r"cannot read the lock file .*: Not a directory"):
        FileLock(tmp_path / "home" / "shop.lock").holder()
