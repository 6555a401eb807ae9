"""A pipeline in words, from its config alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.places import lock_file, objects_url, state_file
from penstock.config.secrets import is_set
from penstock.config.specs import EMBEDDED_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import DuckdbSinkSpec, LinkSpec, MysqlSourceSpec, PipelineSpec

_START = {
    "auto": "from the start of the binlog if the server still has it whole, else with a copy of the tables",
    "log": "from the start of the binlog, or not at all",
    "copy": "with a copy of the tables",
}
_TLS = {
    "full": "yes; the server's certificate must be signed by an authority that we trust, and be for its host",
    "ca": "yes; the server's certificate must be signed by an authority that we trust",
    "none": "yes, but nobody looks at the server's certificate",
}
_DROPPED = {"keep": "their rows are kept", "drop": "they are dropped here too"}


def explain_pipeline(spec: PipelineSpec) -> Iterator[str]:
    """Say line by line what the pipeline does, where its parts are and what is worth knowing. Connects to nothing."""
    yield f"Pipeline {spec.pipeline}"
    yield f"  home   {spec.home}"
    yield f"  spark  {spec.spark.master}"
    for source in spec.sources:
        yield from _explain_source(spec, source)
    for sink in spec.sinks:
        yield from _explain_sink(spec, sink)
    yield ""
    yield "Parts"
    yield from _explain_parts(spec)
    yield ""
    yield "Notes"
    for note in _notes(spec):
        yield f"  - {note}"


def _explain_source(spec: PipelineSpec, source: MysqlSourceSpec) -> Iterator[str]:
    yield ""
    yield f"Source {source.name}: the MySQL or MariaDB server {source.host}:{source.port}"
    yield f"  login    {source.user}, with the password in {source.password_env}"
    yield f"  tls      {_TLS[source.tls.verify] if source.tls else 'none: nothing is encrypted on the way'}"
    yield f"  tables   {source.patterns}"
    yield f"  start    {_START[source.start]}"
    yield f"  replica  server ids from {spec.server_id(source)}; leases of {source.lease_seconds:g} s"


def _explain_sink(spec: PipelineSpec, sink: DuckdbSinkSpec) -> Iterator[str]:
    yield ""
    yield f"Sink {sink.name}: the DuckDB file {sink.path}"
    links = [link for link in spec.links if link.sink == sink.name]
    for link in links:
        yield f"  gets {_wanted(link)} of {link.source}; tables that are dropped there: {_DROPPED[link.dropped_tables]}"
    if not links:
        yield "  gets nothing: no link leads to it"


def _wanted(link: LinkSpec) -> str:
    return "all tables" if link.tables == ("*.*",) else f"the tables {link.patterns}"


def _explain_parts(spec: PipelineSpec) -> Iterator[str]:
    kafka = spec.kafka.bootstrap_servers or "a private broker"
    yield f"  kafka        {kafka}, {spec.kafka.partitions} partition(s) per table, {spec.kafka.replication} replica(s)"
    yield f"  schematizer  {spec.schematizer.url if spec.schematizer else 'a private one'}"
    tracker = f"{spec.tracker.host}:{spec.tracker.port}" if spec.tracker else "a private one, of the source's kind"
    yield f"  tracker      {tracker}"
    yield f"  state        {_state_place(spec)}"
    yield f"  lock         {_lock_place(spec)}"
    yield f"  objects      {objects_url(spec)}"


def _state_place(spec: PipelineSpec) -> str:
    if spec.state.url_env is not None:
        return f"the database whose URL is in {spec.state.url_env}"
    return spec.state.url or f"the SQLite file {state_file(spec)}"


def _lock_place(spec: PipelineSpec) -> str:
    if spec.lock.zookeeper is None:
        return f"the file {lock_file(spec)}"
    return f"ZooKeeper, {spec.lock.zookeeper}; sessions of {spec.lock.session_seconds:g} s"


def _notes(spec: PipelineSpec) -> Iterator[str]:
    yield "A table without a primary key arrives as an append-only log of its changes, not as a copy of its rows."
    yield "A column type that cannot be carried exactly stops its table, and no other; penstock status says so."
    embedded = [part for part in ("kafka", "schematizer", "tracker") if spec.is_embedded(part)]
    if embedded:
        names = ", ".join(embedded)
        yield f"Private parts ({names}) run while the pipeline does, keep data under home, serve this machine only."
    local = [part for part in EMBEDDED_PARTS if spec.is_embedded(part)]
    if spec.lock.zookeeper is not None and local:
        names = ", ".join(local)
        yield f"Instances on other machines would not share what is private here ({names}): give each by its address."
    for source in spec.sources:
        if not any(link.source == source.name for link in spec.links):
            yield f"No link begins at {source.name}: its changes go to Kafka and no further."
    for name in _variables(spec):
        if not is_set(name):
            yield f"The environment variable {name} is not set here; penstock run needs it."


def _variables(spec: PipelineSpec) -> Iterator[str]:
    names = [source.password_env for source in spec.sources]
    names += [spec.tracker.password_env] if spec.tracker else []
    names += [name for name in (spec.state.url_env, spec.kafka.security.password_env) if name]
    yield from dict.fromkeys(names)
