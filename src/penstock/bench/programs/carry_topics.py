"""Runs the links of a pipeline from its topics on, as `penstock run` does, but not its captures.

    python -m penstock.bench.programs.carry_topics FILE HOLD LINK...

While there is a file HOLD, the S3 spolt looks for nothing new, so that everything
runs and has nothing to do. What the links have done is in the state database.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.held import HeldObjects
from penstock.config.load import load
from penstock.embedded.class_archive import spark_archive
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.unpacked_spark import unpacked_spark_home
from penstock.jobs.links import WarehouseLink
from penstock.jobs.runner import PipelineRun
from penstock.spark.runner import SparkRunner
from penstock.spark.session import SessionSpec, open_session
from penstock.spark.supervisor import NoServices
from penstock.wiring.epochs import next_epoch
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from penstock.jobs.link import Link


def main(arguments: list[str]) -> None:
    """Carry what comes, until somebody ends us."""
    file, hold, *names = arguments
    spec = load(Path(file))
    session = open_session(
        SessionSpec(
            spec.pipeline,
            spec.spark.master,
            spec.spark.conf,
            ensure_jars(JarSet.SPARK_KAFKA),
            spark_archive().options(),
            home=unpacked_spark_home(),
        )
    )
    runner = SparkRunner(session, NoServices())
    with closing(open_pipeline_state(spec)) as state:
        links: list[Link] = [HeldObjects(spec, state, next_epoch(spec), max(1, runner.slots // 2), Path(hold))]
        links += [WarehouseLink(spec, link, state, runner.open_sinks) for link in spec.links]
        if error := runner.run(PipelineRun(spec), [link for link in links if link.name in names], {}):
            raise error


if __name__ == "__main__":
    main(sys.argv[1:])
