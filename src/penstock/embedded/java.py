"""The Java runtime that Kafka and Spark need."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.core.errors import UsageError

INSTALL_COMMAND = "sudo apt-get install -y default-jre-headless"

_OLDEST = 17
_TIMEOUT_SECONDS = 30
# `java -version` says "17.0.15" since Java 9 and "1.8.0_402" before.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java() -> str:
    """The path of a Java 17 or newer: JAVA_HOME's, else PATH's.

    Raises UsageError where there is none, with the command that installs one.
    """
    return _checked(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", os.defpath))


@functools.cache
def _checked(java_home: str, search_path: str) -> str:
    """The Java that these two variables lead to, once its version is known to do."""
    of_home = Path(java_home, "bin", "java") if java_home else None
    found = str(of_home) if of_home is not None and of_home.is_file() else shutil.which("java", path=search_path)
    if found is None:
        message = "no Java on this machine: neither JAVA_HOME nor PATH leads to one"
        raise UsageError(message, f"type: {INSTALL_COMMAND}")
    version = _major_version(found)
    if version < _OLDEST:
        message = f"{found} is Java {version}; Spark and Kafka need {_OLDEST} or newer"
        raise UsageError(message, f"type: {INSTALL_COMMAND} and point JAVA_HOME or PATH to it")
    return found


def _major_version(program: str) -> int:
    """The feature release, 17 for 17.0.15; 0 if the program does not say."""
    try:
        # The program is the user's own Java, by its whole path.
        answer = subprocess.run(  # noqa: S603
            [program, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{program} does not run: {error}"
        raise UsageError(message, f"type: {INSTALL_COMMAND} and point JAVA_HOME or PATH to it") from error
    version = _VERSION.search(answer.stderr + answer.stdout)
    return int(version.group(1)) if version else 0
