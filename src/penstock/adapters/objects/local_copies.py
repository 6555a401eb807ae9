"""Files of a store on this machine's disk, so that what reads only local files can read them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.objects import ObjectStore

_HINT: Final = "free space there, or set TMPDIR to a folder with room for the largest table, and run it again"


class LocalCopies:
    """Copies of files that are elsewhere and never change, in a folder that goes with it.

    There are those of one table at a time, so that the disk holds no more than that.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Copy nothing yet. UnavailableError where no folder can be made."""
        self._store = store
        try:
            self._folder = TemporaryDirectory(prefix="penstock-audit-", ignore_cleanup_errors=True)
        except OSError as error:
            message = f"no folder for an audit's copies of files can be made: {error}"
            raise UnavailableError(message, _HINT) from error

    @property
    def folder(self) -> str:
        """The folder of the copies, which has room for what else is passing."""
        return self._folder.name

    def paths(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return where files are, each copied first unless it is here; copies of all others are deleted.

        Raises UnavailableError where there is no room for them, and what the store does.
        """
        here = [self._store.local_path(key) for key in keys]
        places = {key: self._place(key) for key, path in zip(keys, here, strict=True) if path is None}
        try:
            for copy in set(Path(self.folder).glob("*.parquet")) - set(places.values()):
                copy.unlink()
            for key, copy in places.items():
                if not copy.exists():
                    self._copy(key, copy)
        except OSError as error:
            message = f"an audit cannot copy files of a table to {self.folder}: {error}"
            raise UnavailableError(message, _HINT) from error
        return tuple(str(places[key]) if path is None else path for key, path in zip(keys, here, strict=True))

    def close(self) -> None:
        """Delete the copies."""
        self._folder.cleanup()

    def _place(self, key: str) -> Path:
        return Path(self.folder) / f"{hashlib.sha256(key.encode()).hexdigest()}.parquet"

    def _copy(self, key: str, copy: Path) -> None:
        passing = copy.with_suffix(".part")
        try:
            with passing.open("wb") as file:
                file.writelines(self._store.pieces(key))
            passing.rename(copy)
        finally:
            passing.unlink(missing_ok=True)
