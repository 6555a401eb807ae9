"""What docs/deploy.md says to keep is enough: a pipeline whose files are all lost goes on from a copy of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.pipeline.user_pipeline import UserPipeline

_PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"
_RUN_SECONDS = 300


def commands(heading: str, pipeline: UserPipeline) -> Sequence[str]:
    """The copies that the page tells under `heading`, with this pipeline's places; services are started by the test."""
    (block,) = re.findall(rf"\*\*{heading}\*\*.*?\n\n((?:       .*\n)+)", _PAGE.read_text())
    places = {"/var/lib/penstock/shop": str(pipeline.home), "/srv/shop/": f"{pipeline.directory}/"}
    told = [line.partition("#")[0].strip() for line in block.splitlines()]
    for place, own in {**places, "/backup/shop": str(pipeline.directory / "backup")}.items():
        told = [line.replace(place, own) for line in told]
    return [line for line in told if line and not line.startswith("systemctl")]


def run_shell(lines: Sequence[str]) -> None:
    for line in lines:
        subprocess.run(["/bin/sh", "-ec", line], check=True, timeout=120)


def run_once(pipeline: UserPipeline) -> None:
    assert pipeline.start("--once").wait(_RUN_SECONDS) == 0, (pipeline.directory / "run.log").read_text()


@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_a_pipeline_that_lost_everything_goes_on_from_its_backup_and_carries_each_change_once(
    user_pipeline: UserPipeline,
) -> None:
    pipeline = user_pipeline
    pipeline.execute(
        "CREATE TABLE counters (id INT PRIMARY KEY, version INT)",
        "CREATE TABLE notes (id INT PRIMARY KEY, text VARCHAR(20))",
        "INSERT INTO counters SELECT seq, 0 FROM seq_1_to_1000",
    )
    run_once(pipeline)
    backup = commands("Back up", pipeline)
    run_shell(backup)
    # What comes behind the backup is carried, and then lost with everything else.
    pipeline.execute(
        "UPDATE counters SET version = 2 WHERE id <= 50",
        "ALTER TABLE notes ADD COLUMN more INT",
        "INSERT INTO notes VALUES (1, 'lost and found', 7)",
    )
    run_once(pipeline)
    shutil.rmtree(pipeline.home)
    for file in pipeline.directory.glob("warehouse.duckdb*"):
        file.unlink()
    restore = commands("Restore", pipeline)
    run_shell(restore)
    pipeline.execute("DELETE FROM counters WHERE id > 990", "CREATE TABLE fresh (id INT PRIMARY KEY)")
    pipeline.execute("INSERT INTO fresh VALUES (7)")
    run_once(pipeline)

    assert (len(backup), len(restore)) == (2, 2)
    assert pipeline.differences() == {"counters": 0, "fresh": 0, "notes": 0}
    # The topic as it was restored, and what the log has told since, each once.
    assert len(pipeline.changes()) == 1000 + 50 + 10


@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_a_target_that_is_newer_than_what_was_restored_is_refused_at_every_start(user_pipeline: UserPipeline) -> None:
    pipeline = user_pipeline
    pipeline.execute("CREATE TABLE counters (id INT PRIMARY KEY, version INT)", "INSERT INTO counters VALUES (1, 0)")
    run_once(pipeline)
    run_shell(commands("Back up", pipeline))
    for version in range(1, 4):
        pipeline.execute(f"INSERT INTO counters VALUES (1{version}, {version})")
        run_once(pipeline)
    before = pipeline.query(f"SELECT * FROM {pipeline.database}.counters ORDER BY id")
    shutil.rmtree(pipeline.home)
    run_shell([line for line in commands("Restore", pipeline) if "duckdb" not in line])

    for version in range(4, 7):
        # More than was lost, so that the batch topic is longer than the target knows it.
        pipeline.execute(*(f"INSERT INTO counters VALUES ({version}{n}, {version})" for n in range(5)))
        assert pipeline.start("--once").wait(_RUN_SECONDS) != 0
        log = (pipeline.directory / "run.log").read_text()
        assert "Kafka is older than the target" in log or "but was read up to" in log

    assert pipeline.query(f"SELECT * FROM {pipeline.database}.counters ORDER BY id") == before
