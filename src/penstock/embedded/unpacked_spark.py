"""Spark's home with its Python package as files.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path
of each Python process that it starts. Python keeps nothing that it compiled out
of an archive, so each of them compiles PySpark anew: more than a second of CPU,
of two, in five processes or so before the first micro-batch ends. In the home that
is made here a directory has that name, with the installed package in it, which
was compiled when it was installed.

Source: spark-core, `org.apache.spark.api.python.PythonUtils.sparkPythonPath`; the
Python documentation, `zipimport`.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from penstock.embedded.jars import spark_home

_AS_INSTALLED = ("bin", "conf", "jars", "sbin")


def unpacked_spark_home() -> Path:
    """Return the home, made of links where it is not there yet; where it cannot be made, Spark's own."""
    installed = spark_home()
    # What is linked is known by where it is.
    digest = hashlib.sha256(str(installed).encode()).hexdigest()[:12]
    home = Path(sys.prefix) / "share" / "penstock" / f"spark-{digest}"
    if home.exists():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    except OSError:
        return installed
    # A file system may have no links; and somebody else may have made it by now, which is the same.
    with suppress(OSError):
        part.chmod(0o755)
        _link(installed, part)
        part.rename(home)
    shutil.rmtree(part, ignore_errors=True)
    return home if home.exists() else installed


def _link(installed: Path, home: Path) -> None:
    for name in _AS_INSTALLED:
        (home / name).symlink_to(installed / name)
    package = home / "python" / "lib" / "pyspark.zip" / installed.name
    package.parent.mkdir(parents=True)
    package.symlink_to(installed)
