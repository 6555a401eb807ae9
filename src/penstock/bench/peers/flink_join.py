"""Flink SQL's regular join: a program of a few lines in a local cluster, with RocksDB and incremental checkpoints.

Settings are those of Flink's documentation, "State Backends" and "Checkpointing";
what is not set has its default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.java import java
from penstock.embedded.join_kernel import java_compiler
from penstock.embedded.processes import run_to_end

_PROGRAM: Final = Path(__file__).with_name("FlinkJoin.java")
_COMPILE_SECONDS: Final = 120.0
_JVM_OPTIONS: Final = ("-Xms256m", "-Xmx2g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_OPENED: Final = ("java.base/java.lang", "java.base/java.util", "java.base/java.time", "java.base/java.util.concurrent")


@dataclass(frozen=True, slots=True)
class FlinkJoin:
    """A join of `inputs` streams with `rows` events in all, over so many join keys."""

    rows: int
    keys: int
    inputs: int
    parallelism: int
    commit_milliseconds: int


def compile_flink_join(folder: Path) -> str:
    """Compile the program into a folder; return its class path.

    Raises UnavailableError when Flink's jars cannot be fetched, UsageError without a compiler.
    """
    path = os.pathsep.join(map(str, ensure_jars(JarSet.FLINK)))
    command = [java_compiler(), "-nowarn", "-cp", path, "-d", str(folder), str(_PROGRAM)]
    run_to_end("javac (the join in Flink)", command, folder / "javac.log", _COMPILE_SECONDS)
    return f"{path}{os.pathsep}{folder}"


def flink_command(class_path: str, join: FlinkJoin, folder: Path) -> list[str]:
    """How to run it, with its checkpoints below `folder`."""
    opened = [word for each in _OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
    arguments = (join.rows, join.keys, join.inputs, join.parallelism, join.commit_milliseconds, folder)
    return [java(), *_JVM_OPTIONS, *opened, "-cp", class_path, _PROGRAM.stem, *map(str, arguments)]
