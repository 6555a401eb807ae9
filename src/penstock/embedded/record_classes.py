"""Records the class archives of Kafka and Spark, once per installation."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.embedded.class_archive import kafka_archive, spark_archive
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.kafka import start_kafka
from penstock.embedded.unpacked_spark import unpacked_spark_home
from penstock.spark.session import SessionSpec, await_end, open_session
from penstock.spark.warm_up import warm_up

_END_SECONDS = 120.0


def main() -> None:
    """Record what is missing, both at once. Who cannot record starts slower, and is otherwise well."""
    with ThreadPoolExecutor(2) as pool:
        recorders = [
            pool.submit(record)
            for archive, record in ((kafka_archive(), _record_kafka), (spark_archive(), _record_spark))
            if not archive.file.exists()
        ]
        for recorder in recorders:
            try:
                recorder.result()
            except (OSError, PenstockError, subprocess.TimeoutExpired) as error:
                sys.stdout.write(f"no class archive, so starts take longer: {error}\n")


def _record_kafka() -> None:
    with kafka_archive().recording() as options, tempfile.TemporaryDirectory(prefix="penstock-classes-") as home:
        # It answers by then; an orderly end writes the archive.
        start_kafka(Path(home), class_options=options).stop()


def _record_spark() -> None:
    jars = ensure_jars(JarSet.SPARK_KAFKA)
    with spark_archive().recording() as options:
        home = unpacked_spark_home()
        session = open_session(SessionSpec("penstock", jars=jars, java_options=options, home=home))
        warm_up(session)
        await_end(session, _END_SECONDS)


if __name__ == "__main__":
    main()
