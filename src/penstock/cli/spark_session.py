"""The Spark session that a pipeline needs: its jars and settings, no more than its file asks for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.spark.session import SessionSpec


def plan_session(spec: PipelineSpec, name: str) -> SessionSpec:
    """Return how to start Spark for `spec`; jars are fetched first where this machine has them not.

    Spark's source for Kafka is loaded only where there are joins, what Delta tables need
    only where a sink is made of them, and Hadoop's library for S3 only where they are there.
    """
    from penstock.config.places import lake_endpoint, lake_region, lake_url  # noqa: PLC0415 - PySpark is slow to import
    from penstock.config.secrets import secret  # noqa: PLC0415
    from penstock.config.sinks import DeltaSinkSpec  # noqa: PLC0415
    from penstock.embedded.class_archive import spark_archive  # noqa: PLC0415
    from penstock.embedded.jars import JarSet, ensure_jars  # noqa: PLC0415
    from penstock.embedded.join_kernel import ensure_join_kernel  # noqa: PLC0415
    from penstock.embedded.scratch import scratch_folder  # noqa: PLC0415
    from penstock.embedded.unpacked_spark import unpacked_spark_home  # noqa: PLC0415
    from penstock.spark.delta.session import delta_settings, is_on_s3, store_settings  # noqa: PLC0415
    from penstock.spark.session import SessionSpec  # noqa: PLC0415

    jars: tuple[Path, ...] = ()
    conf = dict(spec.spark.conf)
    if spec.joins:
        jars += (*ensure_jars(JarSet.SPARK_KAFKA), ensure_join_kernel())
    lakes = [sink for sink in spec.sinks if isinstance(sink, DeltaSinkSpec)]
    if lakes:
        jars += ensure_jars(JarSet.SPARK_DELTA)
        conf = delta_settings(conf)
    on_s3 = [sink for sink in lakes if is_on_s3(lake_url(spec, sink))]
    if on_s3:
        jars += ensure_jars(JarSet.SPARK_S3A)
    for sink in on_s3:
        conf = {**store_settings(lake_endpoint(spec, sink), lake_region(spec, sink)), **conf}
    secrets = {name: secret(name) for name in spec.secret_names()}
    options = spark_archive().options()
    scratch = None
    with suppress(OSError):
        # Who only reads may not write there.
        scratch = scratch_folder(spec.home)
    return SessionSpec(name, spec.spark.master, conf, jars, options, secrets, unpacked_spark_home(), scratch)
