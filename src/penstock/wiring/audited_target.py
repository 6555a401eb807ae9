"""Opens a link's target for an audit: a database, or a folder of Delta tables."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.objects.local_copies import LocalCopies
from penstock.config.sinks import DeltaSinkSpec
from penstock.core.audit.file_dialect import DELTA
from penstock.core.warehouse.dialects import DIALECTS
from penstock.core.warehouse.state_schema import state_schema
from penstock.links.audit.lake_tables import DeltaTables
from penstock.links.audit.lake_target import LakeTargetState
from penstock.links.audit.moved_state import MovedState
from penstock.links.audit.target_state import TargetState
from penstock.links.warehouse.lake_state import LakeState
from penstock.wiring.open import open_lake_store
from penstock.wiring.sink_kinds.table import landing_kind, sql_kind
from penstock.wiring.warehouses import moved_names

if TYPE_CHECKING:
    from contextlib import ExitStack

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.audited import AuditedDatabase, AuditedState


def open_target(spec: PipelineSpec, link: LinkSpec, stack: ExitStack) -> tuple[AuditedDatabase, AuditedState]:
    """Open the target of `link`, and what it says of itself; `stack` closes them.

    Raises UsageError for a sink that cannot be audited.
    """
    database, state = _open_as_it_is(spec, link, stack)
    names = moved_names(spec, link)
    return database, state if names is None else MovedState(state, names)


def _open_as_it_is(spec: PipelineSpec, link: LinkSpec, stack: ExitStack) -> tuple[AuditedDatabase, AuditedState]:
    sink = spec.sink(link.sink)
    if isinstance(sink, DeltaSinkSpec):
        return _open_lake(spec, link, sink, stack)
    database = stack.enter_context(closing((landing_kind(spec, sink) or sql_kind(spec, sink)).open_audited()))
    schema = state_schema(DIALECTS[sink.kind], spec.pipeline, link.source)
    return database, TargetState(database, spec.pipeline, link.source, schema)


def _open_lake(
    spec: PipelineSpec, link: LinkSpec, sink: DeltaSinkSpec, stack: ExitStack
) -> tuple[AuditedDatabase, LakeTargetState]:
    from penstock.adapters.duckdb.audited_files import AuditedFiles  # noqa: PLC0415 - drivers are slow to import

    store = open_lake_store(spec, sink)
    copies = stack.enter_context(closing(LocalCopies(store)))
    tables = DeltaTables(store, copies.paths)
    database = stack.enter_context(closing(AuditedFiles(DELTA, tables.find, copies.folder)))
    lake_state = LakeState(store, spec.pipeline, link.source)
    return database, LakeTargetState(database.look, lake_state, f"penstock/{spec.pipeline}/{link.source}")
