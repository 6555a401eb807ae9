"""Pinned sets of jars, fetched once by the Ivy that PySpark brings along.

Each set is a committed list of checksums and coordinates, `jar_sets/NAME.txt`.
Jars live outside the checkout, in XDG_CACHE_HOME (~/.cache) under
penstock/jars/NAME-DIGEST, where DIGEST is the list's own checksum: a changed
list makes a new directory. Every file is hashed when it arrives; later uses
compare sizes and modification times with a stamp written then, and hash what differs.
"""

from __future__ import annotations

import enum
import hashlib
import json
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.java import java
from penstock.embedded.processes import run_to_end

if TYPE_CHECKING:
    from collections.abc import Sequence

_FETCH_SECONDS = 300.0
_ATTEMPTS = 3
_STAMP = "verified.json"


class JarSet(enum.Enum):
    """A set of jars that belong together; the value names its list."""

    KAFKA_BROKER = "kafka-broker"
    SPARK_KAFKA = "spark-kafka"
    SPARK_DELTA = "spark-delta"
    SPARK_S3A = "spark-s3a"
    DEBEZIUM = "debezium"
    DEBEZIUM_JDBC = "debezium-jdbc"
    S3PROXY = "s3proxy"
    FLINK = "flink"
    POSTGRES_18 = "postgres-18"


_WHEN_NEEDED = frozenset(
    {JarSet.DEBEZIUM, JarSet.DEBEZIUM_JDBC, JarSet.FLINK, JarSet.POSTGRES_18, JarSet.S3PROXY, JarSet.SPARK_S3A}
)
"""Peers that we are measured against, servers of tests, and what few pipelines need.

They are fetched by the first that needs them, not with the rest.
"""


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned artifact. `sha256` is in hex."""

    sha256: str
    organisation: str
    name: str
    revision: str

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.name}-{self.revision}.jar"


def ensure_jars(jar_set: JarSet) -> tuple[Path, ...]:
    """The set's jars, fetched first if this machine does not have them yet; safe for parallel callers.

    `python -m penstock.embedded.jars` does it for all sets that Penstock itself needs.

    Raises UnavailableError when they cannot be fetched, and UsageError when a
    jar differs from its checksum, the cache cannot be written or Java is missing.
    """
    jars = listed_jars(jar_set)
    directory = jar_directory(jar_set)
    if not directory.exists():
        with locked(directory.with_suffix(".lock")):
            if not directory.exists():
                _fetch(jar_set, jars, directory)
    _verify_stamp(directory, jars)
    return tuple(directory / jar.file for jar in jars)


def listed_jars(jar_set: JarSet) -> tuple[Jar, ...]:
    """What the set's list asks for."""
    return parse_jar_list(_list_file(jar_set).read_text())


def jar_directory(jar_set: JarSet) -> Path:
    """Where the set's jars are, if they have been fetched."""
    digest = hashlib.sha256(_list_file(jar_set).read_bytes()).hexdigest()[:12]
    return cache_directory("jars") / f"{jar_set.value}-{digest}"


def parse_jar_list(text: str) -> tuple[Jar, ...]:
    """The jars of a list: a checksum and organisation:name:revision in each line."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return tuple(Jar(sha256, *coordinates.split(":")) for sha256, coordinates in lines)


def render_ivy_file(jar_set: JarSet, jars: Sequence[Jar]) -> str:
    """An Ivy module file that asks for exactly these jars and nothing they depend on."""
    module = ET.Element("ivy-module", version="2.0")
    ET.SubElement(module, "info", organisation="penstock", module=jar_set.value)
    dependencies = ET.SubElement(module, "dependencies")
    for jar in jars:
        ET.SubElement(
            dependencies, "dependency", org=jar.organisation, name=jar.name, rev=jar.revision, transitive="false"
        )
    return ET.tostring(module, encoding="unicode")


def _fetch(jar_set: JarSet, jars: Sequence[Jar], directory: Path) -> None:
    """Bring the set into `directory`, which appears only when all of it is there and right."""
    with tempfile.TemporaryDirectory(prefix=f"{jar_set.value}-", dir=directory.parent) as scratch_name:
        scratch = Path(scratch_name)
        arrived = scratch / "jars"
        _retrieve(jar_set, jars, scratch, arrived)
        for jar in jars:
            _verify_checksum(arrived / jar.file, jar)
        stamp = {jar.file: _fingerprint(arrived / jar.file) for jar in jars}
        (arrived / _STAMP).write_text(json.dumps(stamp, indent=1))
        arrived.rename(directory)


def _retrieve(jar_set: JarSet, jars: Sequence[Jar], scratch: Path, arrived: Path) -> None:
    """Run Ivy, again if a download fails: what an earlier try brought is in its cache."""
    ivy_file = scratch / "ivy.xml"
    ivy_file.write_text(render_ivy_file(jar_set, jars))
    log = cache_directory("jars") / f"{jar_set.value}.log"
    command = [
        *(java(), "-jar", str(_ivy_jar()), "-warn", "-ivy", str(ivy_file), "-cache", str(scratch / "cache")),
        *("-retrieve", f"{arrived}/[artifact]-[revision].[ext]", "-confs", "default", "-types", "jar", "bundle"),
    ]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            run_to_end(f"Ivy (jars of {jar_set.value})", command, log, _FETCH_SECONDS)
        except PenstockError as error:
            if attempt == _ATTEMPTS:
                raise UnavailableError(error.message, f"check the network or its proxy, see {log}") from error
        else:
            return


def _ivy_jar() -> Path:
    """The Ivy among PySpark's jars."""
    found = sorted(spark_home().glob("jars/ivy-*.jar"))
    if not found:
        message = f"PySpark under {spark_home()} brings no Ivy"
        raise UsageError(message, "install the packages of the lock file again: make setup")
    return found[0]


def spark_home() -> Path:
    """Where PySpark is installed, found without importing it."""
    return Path(str(distribution("pyspark").locate_file("pyspark")))


def _verify_checksum(file: Path, jar: Jar) -> None:
    """Compare a file that has just arrived with its list."""
    if not file.exists():
        message = f"the jar {file.name} did not arrive"
        raise UnavailableError(message, "check the network and try again")
    found = _sha256(file)
    if found != jar.sha256:
        message = f"the jar {file.name} is not the expected one: its SHA-256 is {found}, expected {jar.sha256}"
        raise UsageError(message, "do not use it; ask whoever runs the package mirror of this network")


def _verify_stamp(directory: Path, jars: Sequence[Jar]) -> None:
    """Check that no jar is missing and none has changed since it was hashed.

    A copy of the cache, as in a layer of a container's image, has other times: its jars are hashed again.
    """
    stamp = json.loads((directory / _STAMP).read_text())
    found = {jar.file: _fingerprint(directory / jar.file) for jar in jars if (directory / jar.file).exists()}
    if found == stamp:
        return
    for jar in jars:
        file = directory / jar.file
        if found.get(jar.file) != stamp[jar.file] and not (file.exists() and _sha256(file) == jar.sha256):
            message = f"the jar {file} is missing or has changed since it was verified"
            raise UsageError(message, f"type: rm -r {directory}; it will be fetched again")
    # Where nobody may write, they are hashed at every start, which takes less than a second.
    with suppress(OSError), tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        renewed = Path(scratch) / _STAMP
        renewed.write_text(json.dumps(found, indent=1))
        renewed.replace(directory / _STAMP)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fingerprint(file: Path) -> list[int]:
    """Size in bytes and modification time in ns."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def _list_file(jar_set: JarSet) -> Path:
    """The committed list of a set."""
    return Path(__file__).with_name("jar_sets") / f"{jar_set.value}.txt"


def main() -> int:
    """Fetch all sets that pipelines need; the exit code."""
    try:
        for jar_set in JarSet:
            if jar_set not in _WHEN_NEEDED:
                ensure_jars(jar_set)
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
