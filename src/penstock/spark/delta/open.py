"""Opens the Delta tables of a pipeline from its spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.places import lake_url
from penstock.links.warehouse.lake_sink import LakeSink
from penstock.links.warehouse.lake_state import LakeState
from penstock.spark.delta.lake import DeltaLake
from penstock.wiring.open import open_lake_store
from penstock.wiring.restored_files import open_restoring_store
from penstock.wiring.warehouses import in_its_schema, load_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.config.sinks import DeltaSinkSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.sink import Sink


def open_lake_sink(spec: PipelineSpec, link: LinkSpec, sink: DeltaSinkSpec, session: SparkSession) -> Sink:
    """The target of `link`, a folder of Delta tables."""
    store = open_lake_store(spec, sink)
    lake = DeltaLake(session, store, lake_url(spec, sink), f"penstock/{spec.pipeline}/{link.source}")
    lake_state, rules = LakeState(store, spec.pipeline, link.source), load_rules(spec, link)
    return in_its_schema(spec, link, LakeSink(lake, lake_state, open_restoring_store(spec), rules))
