"""A pipeline in words, from its config alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.explain_spolt import explain_spolt
from penstock.config.places import lock_file, objects_url, state_file
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.config.secrets import is_set
from penstock.config.sinks import DuckdbSinkSpec
from penstock.config.specs import EMBEDDED_PARTS
from penstock.links.transforms import open_salt
from penstock.wiring.sink_kinds.table import sink_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.columns import ColumnsSpec
    from penstock.config.joins import JoinInputSpec
    from penstock.config.mysql_source import MysqlSourceSpec
    from penstock.config.objects_spec import ObjectsSpec
    from penstock.config.sinks import SinkSpec
    from penstock.config.specs import LinkSpec, PipelineSpec, SchematizerSpec, SourceSpec

_START = {
    "auto": "from the start of the binlog if the server still has it whole, else with an initial snapshot",
    "log": "from the start of the binlog, or not at all",
    "snapshot": "with an initial snapshot of the tables",
}
_WITHOUT_TRANSACTIONS = (
    "Without transactions, what a crash left in the topics is compared with what comes next, and not sent twice.",
    "Without transactions, rows become visible one by one: readers may see a part of a transaction or of a snapshot.",
    "Without transactions, only the lock keeps instances apart: what one sends that lost it stops the pipeline.",
    "Without transactions, the state database holds the position: keep it, or the pipeline has to start again.",
)
_BY_COMMAND = "by penstock police alone"
_DELETES = {"hard": "go here too", "soft": "stay here, and _deleted_at says when"}
_OVERFLOW = {"stop": "stop their table", "null": "become NULL, counted", "clamp": "become the nearest ones, counted"}
_DROPPED = {"keep": "their rows are kept", "drop": "they are dropped here too"}


def explain_pipeline(spec: PipelineSpec) -> Iterator[str]:
    """Say line by line what the pipeline does, where its parts are and what is worth knowing. Connects to nothing."""
    yield f"Pipeline {spec.pipeline}"
    yield f"  home   {spec.home}"
    yield f"  spark  {spec.spark.master}"
    for source in spec.sources:
        yield from _explain_source(spec, source)
        if source.format == "json":
            yield "  topics   flat JSON messages, one topic for each table"
    for spolt in spec.spolts:
        yield from explain_spolt(spec, spolt)
    for join in spec.joins:
        yield ""
        yield f"Join {join.name}: {join.output.doc or 'no doc'}"
        for each in join.inputs:
            yield f"  reads    {each.named} by {', '.join(each.join_keys)}{_further(each)}"
        table = f"{join.output.namespace}.{join.output.source}"
        yield f"  makes    {table}; penstock joinery check shows its fields and its key"
    for sink in spec.sinks:
        yield from _explain_sink(spec, sink)
    yield ""
    yield "Parts"
    yield from _explain_parts(spec)
    yield ""
    yield "Notes"
    for note in _notes(spec):
        yield f"  - {note}"


def _further(given: JoinInputSpec) -> str:
    """What an input of a join says besides its keys."""
    left = f" = {', '.join(given.left_keys)}" if given.left_keys else ""
    where = f", where {given.where}" if given.where else ""
    return f"{left}{where}{', or without a match' if given.type == 'left' else ''}"


def _explain_source(spec: PipelineSpec, source: SourceSpec) -> Iterator[str]:
    yield ""
    if isinstance(source, PostgresSourceSpec):
        server = f"the PostgreSQL server {source.host}:{source.port}"
        yield f"Source {source.name}: the database {source.database} of {server}"
        yield f"  login    {source.user}, with the password in {source.password_env}"
        yield f"  tls      {source.tls.meaning if source.tls else 'only if the server offers it'}"
        yield f"  tables   {source.patterns}"
        if source.partitions == "many":
            yield "  parts    each partition is a table of its own"
        yield "  start    with an initial snapshot of them"
        yield f"  log      slot {source.slot_name}, publication {source.publication_name}: made if they are missing"
        return
    yield f"Source {source.name}: the MySQL or MariaDB server {source.host}:{source.port}"
    yield f"  login    {source.user}, with the password in {source.password_env}"
    yield f"  tls      {source.tls.meaning if source.tls else 'none: nothing is encrypted on the way'}"
    yield f"  tables   {source.patterns}"
    yield f"  start    {_START[source.start]}"
    yield f"  beat     {_explain_heartbeat(source)}"
    first_id = source.first_server_id(spec.pipeline)
    yield f"  replica  server ids from {first_id}; tail slices of {source.tail_slice_seconds:g} s"


def _explain_heartbeat(source: MysqlSourceSpec) -> str:
    if source.heartbeat is None:
        return "none: nothing is written to it"
    return f"a row of {source.heartbeat.table} every {source.heartbeat.period_seconds:g} s"


def _explain_sink(spec: PipelineSpec, sink: SinkSpec) -> Iterator[str]:
    yield ""
    first, *more = sink_kind(spec, sink).explain()
    yield f"Sink {sink.name}: {first}"
    yield from (f"  {line}" for line in more)
    links = [link for link in spec.links if link.sink == sink.name]
    for link in links:
        into = f", into the schema {link.target_schema}" if link.target_schema else ""
        from_where = f"{_wanted(link)} of {link.source}{into}"
        yield f"  gets {from_where}; tables that are dropped there: {_DROPPED[link.dropped_tables]}"
        yield f"       rows that are deleted there {_DELETES[link.deletes]}"
        yield f"       values that it cannot hold {_OVERFLOW[link.overflow]}"
        yield from _explain_columns(link.columns)
    if not links:
        yield "  gets nothing: no link leads to it"


def _explain_columns(columns: ColumnsSpec) -> Iterator[str]:
    if columns.drop:
        yield f"  without  {', '.join(columns.drop)}"
    if columns.hash:
        yield f"  hashes   {', '.join(columns.hash)}, with the salt in {columns.salt_env}"
    for mask in columns.mask:
        yield f"  masks    {', '.join(mask.columns)}"
    if columns.salt_env is not None and is_set(columns.salt_env):
        open_salt(columns.salt_env)


def _wanted(link: LinkSpec) -> str:
    return "all tables" if link.tables == ("*.*",) else f"the tables {link.patterns}"


def _explain_parts(spec: PipelineSpec) -> Iterator[str]:
    kafka = spec.kafka.bootstrap_servers or "a private broker"
    yield f"  kafka        {kafka}, {spec.kafka.partitions} partition(s) per table, {spec.kafka.replication} replica(s)"
    if spec.police is not None:
        every = spec.police.every
        yield f"               kept by {len(spec.police.rules)} rule(s), {f'every {every} s' if every else _BY_COMMAND}"
    if not spec.kafka.transactions:
        yield "               without transactions: positions are kept in the state database"
    yield f"  schematizer  {_schematizer(spec.schematizer) if spec.schematizer else 'a private one'}"
    for source in spec.mysql_sources:
        given = spec.tracker_of(source)
        of_source = f" (of {source.name})" if len(spec.sources) > 1 else ""
        tracker = f"{given.host}:{given.port}" if given else "a private one, of the source's kind"
        yield f"  tracker      {tracker}{of_source}"
    yield f"  state        {_state_place(spec)}"
    yield f"  lock         {_lock_place(spec)}"
    yield f"  objects      {objects_url(spec)}"
    yield from _explain_files(spec.objects, spec.inline_bytes_max)
    if spec.files_keep_hours is not None:
        yield f"               files that every target has loaded are deleted after {spec.files_keep_hours:g} h"
    yield f"  live page    {spec.web.meaning if spec.web else 'none'}"


def _explain_files(objects: ObjectsSpec, inline_bytes_max: int) -> Iterator[str]:
    """Say what is not as it is by default, and where small files are."""
    if objects.format == "csv":
        yield f"               as CSV, compressed with {objects.compression}"
    if objects.batch_seconds:
        yield f"               a file is closed {objects.batch_seconds:g} s after its first change came, at the latest"
    inlined = f"files of up to {inline_bytes_max:,} bytes are in their batch messages"
    yield f"               {inlined if inline_bytes_max else 'every batch is a file'}"


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
    if not spec.kafka.transactions:
        yield from _WITHOUT_TRANSACTIONS
    for source in spec.sources:
        if not any(link.source == source.name for link in spec.links):
            yield f"No link begins at {source.name}: its changes go to Kafka and no further."
    yield from _ambiguous_names(spec)
    for name in spec.secret_names():
        if not is_set(name):
            yield f"The environment variable {name} is not set here; penstock run needs it."


def _ambiguous_names(spec: PipelineSpec) -> Iterator[str]:
    """Name DuckDB files that are called like a schema in them: to DuckDB, a file's name is a database's."""
    schemas = {source.name: [each.partition(".")[0] for each in source.tables] for source in spec.sources}
    for link in spec.links:
        sink = spec.sink(link.sink)
        if isinstance(sink, DuckdbSinkSpec) and sink.path.stem in schemas[link.source]:
            name = sink.path.stem
            yield (
                f"{sink.path.name} is called like the schema {name}, so to DuckDB's own shell {name}.orders is "
                f"ambiguous: give the file another name, or type {name}.{name}.orders there."
            )


def _schematizer(spec: SchematizerSpec) -> str:
    """Where it is, and how we sign in there."""
    if spec.token_env:
        return f"{spec.url}, with the token in {spec.token_env}"
    return f"{spec.url} as {spec.user}, with the password in {spec.password_env}" if spec.user else spec.url
