"""Files of a store on this machine's disk, so that what reads only local files can read them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.ports.objects import ObjectStore


class LocalCopies:
    """Copies of files that are elsewhere and never change, in a folder that goes with it."""

    def __init__(self, store: ObjectStore) -> None:
        """Copy nothing yet."""
        self._store = store
        self._folder = TemporaryDirectory(prefix="penstock-audit-")

    @property
    def folder(self) -> str:
        """The folder of the copies, which has room for what else is passing."""
        return self._folder.name

    def path(self, key: str) -> str:
        """Return where a file is; it is copied first unless it is here."""
        here = self._store.local_path(key)
        if here is not None:
            return here
        copy = Path(self._folder.name) / f"{hashlib.sha256(key.encode()).hexdigest()}.parquet"
        if not copy.exists():
            passing = copy.with_suffix(".part")
            passing.write_bytes(self._store.get(key))
            passing.rename(copy)
        return str(copy)

    def close(self) -> None:
        """Delete the copies."""
        self._folder.cleanup()
