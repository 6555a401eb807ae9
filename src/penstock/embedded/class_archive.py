"""What a JVM loads at its start, recorded once and mapped ever after: its start takes half the time then.

A JVM without an archive reads, verifies and links every class anew: 5 of 13 CPU
seconds of a Spark session's start, 3 of 7 of a broker's. Nothing depends on an
archive: a JVM of another build, or other jars, starts as if there were none.

Source: JEP 350, Dynamic CDS Archives; the manual of `java`, -XX:ArchiveClassesAtExit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.embedded.cache import cache_directory
from penstock.embedded.jars import JarSet, jar_directory
from penstock.embedded.java import java
from penstock.embedded.unpacked_spark import unpacked_spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator

_SILENT = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""A JVM that cannot use an archive starts without it, and has nothing to say about that."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one program: `name`, made of the jars in `jars`, kept in `directory`."""

    name: str
    jars: Path
    directory: Path

    @property
    def file(self) -> Path:
        """Where it is, once it was recorded, for this Java and these jars."""
        machine = Path(java()).resolve()
        about = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in (machine, self.jars)]
        digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
        return self.directory / f"{self.name}-{digest}.jsa"

    def options(self) -> tuple[str, ...]:
        """What to start a JVM with; nothing where nothing was recorded."""
        file = self.file
        return (f"-XX:SharedArchiveFile={file}", *_SILENT) if file.exists() else ()

    @contextmanager
    def recording(self) -> Iterator[tuple[str, ...]]:
        """What to start a JVM with that records: it must end by itself inside the `with` block.

        The archive appears when it is whole. Raises OSError where it cannot be kept.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        part = self.directory / f"{self.name}-{os.getpid()}.part"
        try:
            yield (f"-XX:ArchiveClassesAtExit={part}", *_SILENT)
            part.replace(self.file)
        finally:
            part.unlink(missing_ok=True)


def kafka_archive() -> ClassArchive:
    """A broker's, shared by all who use the same jars."""
    return ClassArchive("kafka", jar_directory(JarSet.KAFKA_BROKER), cache_directory("classes"))


def spark_archive() -> ClassArchive:
    """A Spark session's, kept with the Python environment that PySpark is installed in, and gone with it."""
    return ClassArchive("spark", unpacked_spark_home() / "jars", Path(sys.prefix) / "share" / "penstock")
