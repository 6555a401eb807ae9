"""The data directory of a server that was never used: made once on a machine, and copied from then on.

A first start of MariaDB takes seconds, of MySQL more, and most of that is
waiting for the disk. What it makes depends on the program and its settings
alone; whatever is to be a server's own, its keys and its identity, is not kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UsageError
from penstock.embedded.cache import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OWN: Final = ("auto.cnf", "*.pem", "*.pid", "*.sock*", "binlog.*")
"""What a server makes at its next start if it is not there."""
_BLOCK: Final = bytes(1 << 20)


def begin_data(data: Path, program: Path, about: Iterable[str], make: Callable[[], None]) -> None:
    """Fill `data`, which is not there: by `make`, or with a copy of what `make` made on this machine before.

    A copy serves where `program` is the same file and `about`, all else that
    `make` depends on, says the same. Without a cache that can be written, `make`
    is called each time. Raises what `make` raises.
    """
    status = program.stat()
    said = [f"{program.resolve()} {status.st_size} {status.st_mtime_ns} {os.geteuid()}", *about]
    kept = cache_directory("data") / hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    with ExitStack() as stack:
        with suppress(UsageError):
            stack.enter_context(locked(kept.with_suffix(".lock")))
        if not kept.exists():
            make()
            with suppress(OSError):
                _keep(data, kept)
            return
    _copy(data, kept)


def _keep(data: Path, kept: Path) -> None:
    part = kept.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    _copy(part, data)
    part.rename(kept)


def _copy(to: Path, source: Path) -> None:
    """Copy a directory without what is a server's own."""
    shutil.copytree(source, to, ignore=shutil.ignore_patterns(*_OWN), copy_function=_copy_file)


def _copy_file(source: str, to: str) -> None:
    """Copy a file, and leave out what is zero: most of a log that was never used."""
    with Path(source).open("rb") as reading, Path(to).open("wb") as writing:
        while block := reading.read(len(_BLOCK)):
            if block == _BLOCK[: len(block)]:
                writing.seek(len(block), os.SEEK_CUR)
            else:
                writing.write(block)
        writing.truncate()
    shutil.copystat(source, to)
