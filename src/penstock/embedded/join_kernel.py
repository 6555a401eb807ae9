"""The kernel of joins: Java sources that come with Penstock, compiled on first use and kept in the cache.

`python -m penstock.embedded.join_kernel` compiles it ahead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

from penstock.core.errors import PenstockError, UsageError
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.jars import spark_home
from penstock.embedded.processes import run_to_end

INSTALL_COMMAND = "sudo apt-get install -y default-jdk-headless"

_SOURCES = Path(__file__).parents[1] / "jvm" / "join"
_RELEASE = "17"
_COMPILE_SECONDS = 300.0
_LONG_AGO = (2024, 1, 1, 0, 0, 0)
"""The time of every file in the jar, so that equal sources make equal jars."""


def ensure_join_kernel() -> Path:
    """The kernel's jar, compiled first if the cache has none of these sources; safe for parallel callers.

    Raises UsageError where there is no Java compiler, and PenstockError when it fails.
    """
    jar = kernel_jar()
    if not jar.exists():
        with locked(jar.with_suffix(".lock")):
            if not jar.exists():
                _compile(jar)
    return jar


def kernel_jar() -> Path:
    """Where the jar is, once it was compiled of these sources for this Spark."""
    digest = hashlib.sha256(f"{version('pyspark')} {_RELEASE}".encode())
    for source in _sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache_directory("jars") / f"join-kernel-{digest.hexdigest()[:12]}.jar"


def _sources() -> list[Path]:
    return sorted(_SOURCES.glob("*.java"))


def _compile(jar: Path) -> None:
    """Compile into a jar, which appears when it is whole."""
    with tempfile.TemporaryDirectory(prefix="join-kernel-", dir=jar.parent) as scratch_name:
        scratch = Path(scratch_name)
        classes, part = scratch / "classes", scratch / "part.jar"
        libraries = f"{spark_home()}/jars/*"
        command = [java_compiler(), "--release", _RELEASE, "-nowarn", "-cp", libraries, "-d", str(classes)]
        sources = [str(source) for source in _sources()]
        log = cache_directory("jars") / "join-kernel.log"
        run_to_end("javac (the kernel of joins)", [*command, *sources], log, _COMPILE_SECONDS)
        with zipfile.ZipFile(part, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _LONG_AGO)
                archive.writestr(entry, file.read_bytes())
        part.rename(jar)


def java_compiler() -> str:
    """The path of javac: JAVA_HOME's, else PATH's. Raises UsageError where there is none."""
    home = os.environ.get("JAVA_HOME", "")
    of_home = Path(home, "bin", "javac") if home else None
    found = str(of_home) if of_home is not None and of_home.is_file() else shutil.which("javac")
    if found is None:
        message = "no Java compiler on this machine, and joins have a part in Java that is compiled once"
        raise UsageError(message, f"type: {INSTALL_COMMAND}; or leave joins out of the pipeline's file")
    return found


def main() -> int:
    """Compile the kernel; the exit code."""
    try:
        ensure_join_kernel()
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
