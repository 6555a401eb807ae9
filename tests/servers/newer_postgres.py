"""PostgreSQL 18 in place of the one that is installed."""

from __future__ import annotations

import os
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.embedded.jars import JarSet, ensure_jars

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def newer_postgres() -> Iterator[None]:
    """Put its programs ahead of all others in PATH, where the user may read them as whom they run in place of root."""
    (jar,) = ensure_jars(JarSet.POSTGRES_18)
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-") as home, zipfile.ZipFile(jar) as packed:
        Path(home).chmod(0o755)
        with packed.open("postgres-linux-x86_64.txz") as inner, tarfile.open(fileobj=inner, mode="r|xz") as files:
            files.extractall(home, filter="tar")
        os.environ["PATH"] = f"{home}/bin{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before
