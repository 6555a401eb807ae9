"""Tests run in the background as they do in a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CONFTEST = Path(__file__).parents[1] / "conftest.py"
_PROGRAM = f"""
import os, runpy, signal
runpy.run_path({str(_CONFTEST)!r})
os.execvp("sh", ["sh", "-c", "kill -INT $$; echo deaf"])
"""


def test_programs_that_a_test_starts_get_ctrl_c_where_a_shell_ignores_it() -> None:
    in_the_background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", _PROGRAM]

    ended = subprocess.run(in_the_background, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.stdout, ended.returncode) == ("", -2), ended.stderr
