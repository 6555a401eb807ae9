"""Penstock's commands in processes of their own, forked from one that has everything imported.

Python takes two seconds of CPU to begin one anew, which is what most tests of
commands would wait for. That `penstock` is a program that can be started is seen
wherever servers are.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.forked import ended, start_forked

from penstock.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.process import BaseProcess


class Said(NamedTuple):
    """What a command that has ended leaves behind."""

    returncode: int
    stdout: str
    stderr: str


def start_command(log: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> BaseProcess:
    """Begin a command with `environment` added to ours; all that it says is in `log`."""
    return start_forked(_run, arguments, dict(environment or {}), log, log)


def run_command(*arguments: str, environment: Mapping[str, str] | None = None) -> Said:
    """Run a command to its end."""
    with tempfile.TemporaryDirectory() as home:
        out, err = Path(home, "out"), Path(home, "err")
        code = ended(start_forked(_run, arguments, dict(environment or {}), out, err), 60)
        return Said(code, out.read_text(), err.read_text())


def _run(arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> None:
    os.environ.update(environment)
    for file, descriptor in ((out, 1), (err, 2)):
        with file.open("ab") as opened:
            os.dup2(opened.fileno(), descriptor)
    sys.argv = ["penstock", *arguments]
    main()
