from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.embedded.scratch import scratch_folder

_PROGRAM = """
import sys
from pathlib import Path
from penstock.embedded.scratch import scratch_folder
print(scratch_folder(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_a_folder_goes_when_its_process_was_killed_and_not_before(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        folder = Path(other.stdout.readline().strip())
        (folder / "blockmgr").mkdir()
        (folder / "blockmgr" / "block").write_bytes(b"x")
        own = scratch_folder(tmp_path)
        while_it_lives = set((tmp_path / "spark").iterdir())
        other.kill()
        other.wait()

    another = scratch_folder(tmp_path)

    assert while_it_lives == {folder, own}
    assert set((tmp_path / "spark").iterdir()) == {own, another}


def test_processes_that_begin_together_do_not_remove_each_others(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(scratch_folder, [tmp_path] * 200))

    assert set((tmp_path / "spark").iterdir()) == set(folders)
