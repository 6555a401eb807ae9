"""The page of a run that begins again: the same child, through execve(2)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.web.shop import CONFIG, until

# As `penstock run` does it: the first program starts a page and hands it on, the second one takes and ends it.
PROGRAM = """\
import os, sys, time
from pathlib import Path
from penstock.config.load import load
from penstock.embedded.page import plan_page
file = Path(sys.argv[1])
page = plan_page(file, load(file))
if sys.argv[2] == "first":
    page.start()
    while b"tether" in Path(f"/proc/{page._child.pid}/cmdline").read_bytes():
        time.sleep(0.02)
    environment = {**os.environ, **page.hand_on()}
    if len(sys.argv) > 3:
        file.write_text(file.read_text() + "# edited\\n")
    os.execve(sys.executable, [sys.executable, __file__, str(file), "second"], environment)
with page:
    print(page.url, page._child and page._child.pid, flush=True)
    sys.stdin.read()
"""


def _begin(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    file, program = tmp_path / "shop.yaml", tmp_path / "program.py"
    file.write_text(CONFIG)
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(file), "first", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.nightly
def test_a_page_outlives_the_program_that_started_it_and_ends_with_the_process(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    assert run.stdout is not None
    url, pid = run.stdout.readline().split()
    port = url.rstrip("/").rpartition(":")[2]

    assert _is_there(int(pid))
    assert next(tmp_path.rglob("web.port")).read_text().strip() == port
    run.communicate("")
    assert run.returncode == 0
    assert not _is_there(int(pid))


def test_a_page_that_is_kept_dies_with_its_process_even_by_kill_9(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    assert run.stdout is not None
    _, pid = run.stdout.readline().split()
    run.kill()
    run.communicate()

    until(lambda: not _is_there(int(pid)), 60)


@pytest.mark.nightly
def test_a_page_of_a_file_that_was_changed_is_not_kept(tmp_path: Path) -> None:
    run = _begin(tmp_path, "edited")
    assert run.stdout is not None
    _, pid = run.stdout.readline().split()
    run.communicate("")

    assert pid == "None"
