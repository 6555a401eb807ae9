"""Asks what only a pipeline that ran before can be asked: whether its state and its sources' logs are still its own."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.state.migrate import has_current_tables
from penstock.config.places import has_state, state_url
from penstock.core.errors import LogError, PenstockError
from penstock.core.findings import Finding
from penstock.wiring.identity import own_identity, require_identity
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import PipelineSpec
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import State

_SUBJECT = "state database"


def examine_started(spec: PipelineSpec) -> Iterator[Finding]:
    """Look at whose rows the state database has, and whether each source's log reaches back to where we stand.

    Nothing is found where nothing ran yet, or an older release did. Changes nothing.
    """
    if not has_state(spec):
        return
    try:
        if has_current_tables(state_url(spec)):
            with closing(open_pipeline_state(spec)) as state:
                yield from _examine_rows(spec, state)
    except PenstockError as error:
        yield Finding("error", _SUBJECT, error.message, error.hint, error.exit_code)


def _examine_rows(spec: PipelineSpec, state: State) -> Iterator[Finding]:
    known = state.identity()
    if known is None:
        return
    # An embedded broker need not run now.
    require_identity(spec, known, own_identity(spec, ask_kafka=not spec.is_embedded("kafka")))
    yield Finding("ok", _SUBJECT, "its rows are this pipeline's")
    for source in spec.sources:
        mirrored = state.position(source.name)
        if mirrored is not None:
            yield from _examine_log(ask_source(source, mirrored[0]))


def _examine_log(source: SourceStatus) -> Iterator[Finding]:
    subject, retention = f"source {source.source}, log", source.retention
    if retention is not None and retention.level != "ok":
        exit_code = LogError.exit_code if retention.level == "error" else 0
        yield Finding(retention.level, subject, retention.text, retention.hint, exit_code)
    elif source.unanswered:
        yield Finding("error", subject, source.unanswered, source.hint, LogError.exit_code)
    else:
        yield Finding("ok", subject, f"reaches back to {source.position}, where the pipeline stands")
