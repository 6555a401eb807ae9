"""Where a pipeline stands: what its lock and its state database tell, and its sources where they answer."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.config.places import has_state
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.core.lag import lag_seconds
from penstock.ports.history import DAY, HOUR, SPARK
from penstock.ports.state import LACKS_ROWS, STARTING
from penstock.wiring.audits import named_audits, open_results, overdue_audits
from penstock.wiring.carried_requests import carried_requests
from penstock.wiring.identity import own_identity, require_identity
from penstock.wiring.micro_batches import sinks_with_tasks, tasks_link
from penstock.wiring.open import (
    OBJECTS_LINK,
    open_history,
    open_lock,
    open_pipeline_state,
    open_snapshot_list,
    open_table_actions,
)
from penstock.wiring.police_schedule import police_is_overdue
from penstock.wiring.snapshots import newest_snapshots
from penstock.wiring.source_status import ask_source
from penstock.wiring.table_sources import sources_to_name
from penstock.wiring.zone_status import ask_zones

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.state.audit_results import SqlAuditResults
    from penstock.adapters.state.history import SqlHistory
    from penstock.adapters.state.snapshots import SqlSnapshots
    from penstock.adapters.state.store import SqlState
    from penstock.adapters.state.table_actions import SqlTableActions
    from penstock.config.specs import PipelineSpec
    from penstock.core.topic_policy import PolicyLook
    from penstock.ports.audit_results import AuditResult
    from penstock.ports.history import Sample, ServerCondition
    from penstock.ports.snapshots import Snapshot
    from penstock.ports.source_status import SourceStatus
    from penstock.ports.state import LinkProgress, State, TableProgress
    from penstock.ports.table_actions import TableRequest
    from penstock.wiring.zone_status import ZoneStatus


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What is known of a pipeline at `now_ms`.

    `holder` says who runs it, "" if nobody does, and None if the server that
    knows does not answer, or the lock is a file and may be another machine's: `unanswered`
    says so then, and `unanswered_hint` what to do. `stranger` says that the rows
    are those of another pipeline, and what to do. `servers` are the embedded ones as
    they were when they were last written down, and nobody's while nothing runs, but for Spark
    where a run lost it and begins again. `audits`
    are the newest results of the file's audits; `overdue_audits` names those that did
    not come although somebody runs the pipeline. `police` is the newest look at how
    topics are kept, None where the file has no rules or nobody looked so far. `loading` names
    the links that load targets, where tables can be let go on one by one. `sources_to_name` has
    the sources of tables, by link and table, where several have a table of that name. `names` are
    the links of the file.
    """

    holder: str | None
    links: Sequence[LinkProgress]
    tables: Sequence[TableProgress]
    unanswered: str = ""
    unanswered_hint: str = ""
    sources: Sequence[SourceStatus] = ()
    zones: Sequence[ZoneStatus] = ()
    now_ms: int = 0
    stranger: tuple[str, str] | None = None
    snapshots: Sequence[Snapshot] = ()
    servers: Sequence[ServerCondition] = ()
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    day_samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    audits: Sequence[AuditResult] = ()
    overdue_audits: Sequence[str] = ()
    requests: Sequence[TableRequest] = ()
    skipped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    police: PolicyLook | None = None
    police_is_overdue: bool = False
    loading: frozenset[str] = frozenset()
    sources_to_name: Mapping[tuple[str, str], str] = field(default_factory=dict)
    names: Sequence[str] = ()

    @property
    def spark_is_away(self) -> bool:
        """Whether a run lost Spark, and starts it again."""
        return any(each.server == SPARK and each.state != "running" for each in self.servers)

    @property
    def begins_again(self) -> bool:
        """Whether such a run has let everything go, its lock as well, and goes on in a moment."""
        return self.holder == "" and self.spark_is_away

    @property
    def run_began_ms(self) -> int:
        """When the newest run began that wrote down how its links are; 0 if none did."""
        return max((link.running_since_ms for link in self.links), default=0)

    @property
    def left_out(self) -> Sequence[str]:
        """The links of the file of which that run wrote nothing: it does not run them."""
        written = {link.link for link in self.links if link.running_since_ms == self.run_began_ms}
        return [name for name in self.names if name not in written]

    @property
    def silent_seconds(self) -> float | None:
        """How long ago a link gave the last sign of life, or its run began; None where all ended in order."""
        signs = [max(link.updated_at_ms, link.running_since_ms) for link in self.links if link.state in ALIVE]
        return (self.now_ms - max(signs)) / 1000 if signs else None

    @property
    def is_starting(self) -> bool:
        """Whether no link of the newest run has given a sign of life so far."""
        return all(link.updated_at_ms < self.run_began_ms for link in self.links)

    def request(self, link: str, table: str) -> TableRequest | None:
        """The newest request for a table at a link."""
        return next((each for each in self.requests if (each.link, each.table) == (link, table)), None)

    def lag_seconds(self, link: LinkProgress) -> float | None:
        """How long ago the oldest change was committed that the link has not carried, at most; None if unknown."""
        return lag_seconds(link.behind_since_ms, self.now_ms)

    def catches_up(self, table: TableProgress) -> bool:
        """Whether the table of a loading link waited, goes on, and is not yet where its link is."""
        request = self.request(table.link, table.table)
        waits = request is not None and (request.pauses or request.has_dropped)
        is_lacking = bool(table.stopped_at_ms) and not table.error and LACKS_ROWS not in table.hint
        return table.link in self.loading and is_lacking and not waits

    def table_lag_seconds(self, table: TableProgress) -> float | None:
        """The same of one table; of one that stopped or waited since then, of one that is not loaded unknown."""
        if table.error:
            return lag_seconds(table.stopped_at_ms or None, self.now_ms)
        request = self.request(table.link, table.table)
        if request is not None and request.has_dropped:
            return None
        if request is not None and request.pauses:
            return lag_seconds(table.stopped_at_ms or request.ended_at_ms or request.asked_at_ms, self.now_ms)
        if self.catches_up(table):
            return lag_seconds(table.stopped_at_ms, self.now_ms)
        link = next((link for link in self.links if link.link == table.link), None)
        if table.behind_since_ms is None:
            return None if link is None else self.lag_seconds(link)
        return lag_seconds(table.behind_since_ms, self.now_ms)

    def stuck_seconds(self, link: LinkProgress) -> float | None:
        """For how long the link ran without moving although something was ahead of it; None if unknown.

        The time that nobody ran it does not count, neither before this run nor after the last one.
        """
        behind_since_ms = link.behind_since_ms
        if behind_since_ms is None and link.is_under_way and self.holder != "":
            behind_since_ms = link.running_since_ms
        if not behind_since_ms:
            return behind_since_ms
        if link.state == STARTING:
            return 0.0
        until_ms = link.updated_at_ms if self.holder == "" else self.now_ms
        since_ms = max(behind_since_ms, link.moved_at_ms, link.running_since_ms)
        return max(0.0, (until_ms - since_ms) / 1000)

    def with_answers(self, sources: Sequence[SourceStatus], zones: Sequence[ZoneStatus]) -> PipelineStatus:
        """The same with what sources and zones said lately; of lag, a run of the pipeline knows newer things."""
        links = self.links if self.holder else [_as_the_source_says(link, sources) for link in self.links]
        return replace(self, sources=sources, links=links, zones=zones)


ALIVE = frozenset({STARTING, "running", "retrying"})
"""The states of links that did not end in order."""

SILENT_SECONDS = 30.0
"""A pipeline that runs writes its mirror every two seconds; some more for a database that is slow for a moment."""

_BEGINS_AGAIN_MS = 120_000
"""A run that lost Spark waits for half a minute at most, and needs some seconds, until it takes its lock again."""

_DAY_READ_MS = 60_000
"""Samples of the day are five minutes apart: a reader that looks every second need not read them each time."""

_Opened: TypeAlias = "tuple[SqlState, SqlHistory, SqlSnapshots, SqlAuditResults, SqlTableActions]"


class StatusReader:
    """Reads where a pipeline stands, again and again, over connections of its own to the state database."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Connect to nothing yet."""
        self._spec = spec
        self._opened: _Opened | None = None
        self._names = frozenset(known_links(spec))
        self._day_samples: Mapping[str, Sequence[Sample]] = {}
        self._day_until_ms = 0

    def read(self) -> PipelineStatus:
        """As `read_status`, without asking the sources. After an error, the next call connects anew."""
        holder, unanswered = _ask_holder(self._spec)
        hint = "start ZooKeeper, or look on the machines themselves" if unanswered else ""
        status = PipelineStatus(holder, (), (), unanswered, hint, now_ms=_now_ms())
        if self._opened is None and not has_state(self._spec):
            return status
        try:
            return self._read(status, self._open())
        except PenstockError:
            self.close()
            raise

    def ask_sources(self) -> Sequence[SourceStatus]:
        """Ask every source how far its log reaches; one that is away is a part of the answer."""
        positions = {}
        if self._opened is not None or has_state(self._spec):
            state, *_ = self._open()
            positions = {source.name: state.position(source.name) for source in self._spec.sources}
        asked = []
        for source in self._spec.sources:
            mirrored = positions.get(source.name)
            asked.append(ask_source(source, mirrored[0] if mirrored else None))
        return asked

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        for opened in self._opened or ():
            opened.close()
        self._opened = None

    def _open(self) -> _Opened:
        if self._opened is None:
            spec = self._spec
            self._opened = (
                open_pipeline_state(spec),
                open_history(spec),
                open_snapshot_list(spec),
                open_results(spec),
                open_table_actions(spec),
            )
        return self._opened

    def _read(self, status: PipelineStatus, opened: _Opened) -> PipelineStatus:
        state, history, snapshots, audits, actions = opened
        samples = history.samples(HOUR, status.now_ms - HOUR.span_ms)
        if status.now_ms >= self._day_until_ms:
            self._day_samples = history.samples(DAY, status.now_ms - DAY.span_ms)
            self._day_until_ms = status.now_ms + _DAY_READ_MS
        named = named_audits(self._spec)
        results = [each for each in audits.newest() if each.audit in named]
        links = [link for link in state.links() if link.link in self._names]
        tables = [table for table in state.tables() if table.link in self._names]
        newest, requests = newest_snapshots(snapshots), carried_requests(self._spec, actions)
        seen = [*((each.link, each.table) for each in tables), *((each.link, each.table) for each in requests)]
        seen += [(each.source, each.table) for each in newest]
        police = history.police() if self._spec.police is not None else None
        # What was taken out of the file is nobody's concern any more; its rows stay, should it come back.
        status = replace(status, links=links, names=link_names(self._spec))
        running_since_ms = status.run_began_ms
        found = replace(
            status,
            tables=tables,
            stranger=_stranger(self._spec, state),
            loading=frozenset(link.name for link in self._spec.links),
            snapshots=newest,
            servers=_servers(history.servers(), status),
            audits=results,
            overdue_audits=overdue_audits(named, results, running_since_ms, status.now_ms) if status.holder else (),
            samples={name: found for name, found in samples.items() if name in self._names},
            day_samples={name: found for name, found in self._day_samples.items() if name in self._names},
            police=police,
            police_is_overdue=bool(status.holder)
            and police_is_overdue(self._spec, police, running_since_ms, status.now_ms),
            requests=requests,
            sources_to_name=sources_to_name(self._spec, seen),
            skipped=actions.skipped_counts(),
        )
        return _perhaps_elsewhere(self._spec, replace(found, links=_as_run(found)))


def _as_run(status: PipelineStatus) -> Sequence[LinkProgress]:
    """The links; one of which the newest run wrote nothing does not run, whatever an older one said last."""
    gone = {*status.left_out}
    return [
        replace(link, state="stopped") if link.link in gone and link.state in ALIVE else link for link in status.links
    ]


def _perhaps_elsewhere(spec: PipelineSpec, status: PipelineStatus) -> PipelineStatus:
    """The same; but nobody knows who runs it where its lock is free here and something ran it a moment ago.

    Where the lock is a file, an instance on another machine holds a file of its own.
    """
    silent = status.silent_seconds
    if spec.lock.zookeeper is not None or spec.is_embedded("state"):
        return status
    if status.holder != "" or status.spark_is_away or silent is None or silent > SILENT_SECONDS:
        return status
    text = f"nobody holds its lock here, though it gave a sign of life {max(0.0, silent):.0f} s ago"
    return replace(
        status,
        holder=None,
        unanswered=f"{text}: it runs on another machine, or was killed",
        unanswered_hint="look on the machine that runs it; with `lock: {zookeeper: ...}` other machines see it, too; "
        f"if it was killed, that is known in {SILENT_SECONDS:.0f} s",
    )


def _servers(written: Sequence[ServerCondition], status: PipelineStatus) -> Sequence[ServerCondition]:
    """Those that there are: what was written of others is from a run that has ended."""
    if status.holder:
        return written
    since_ms = status.now_ms - _BEGINS_AGAIN_MS
    return [each for each in written if each.server == SPARK and each.state != "running" and each.since_ms > since_ms]


def link_names(spec: PipelineSpec) -> Sequence[str]:
    """The links that the file asks for, in the order of the data."""
    captures = [source.name for source in spec.sources]
    joins, spolts = [join.name for join in spec.joins], [spolt.name for spolt in spec.spolts]
    return [*captures, *joins, OBJECTS_LINK, *(link.name for link in spec.links), *spolts]


def known_links(spec: PipelineSpec) -> Sequence[str]:
    """The links that the file asks for, and what stands for the tasks of its sinks."""
    return [*link_names(spec), *(tasks_link(sink.name) for sink in sinks_with_tasks(spec))]


def read_status(spec: PipelineSpec, *, ask_sources: bool = False) -> PipelineStatus:
    """Read where the pipeline stands; nothing is known of one that never ran.

    Starts and creates nothing. Sources are asked for their log's ends, and Snowflake
    for its tasks, only if `ask_sources`; one that is away is a part of the answer. Raises UnavailableError
    when the state database is away, UsageError when it cannot be opened at all.
    """
    with closing(StatusReader(spec)) as reader:
        status = reader.read()
        asks = ask_sources and has_state(spec)
        sources, zones = (reader.ask_sources(), ask_zones(spec)) if asks else ((), ())
    links = [_as_the_source_says(link, sources) for link in status.links]
    return replace(status, links=links, sources=sources, zones=zones, now_ms=_now_ms())


def has_loaded(spec: PipelineSpec, sink: str) -> bool:
    """Whether a row has come to `sink` so far; True while nobody can tell."""
    if not has_state(spec):
        return False
    links = {link.name for link in spec.links if link.sink == sink}
    try:
        with closing(open_pipeline_state(spec)) as state:
            return any(table.rows for table in state.tables() if table.link in links)
    except UnavailableError:
        return True


def _stranger(spec: PipelineSpec, state: State) -> tuple[str, str] | None:
    """What tells that the rows are another pipeline's, as far as that shows without asking Kafka."""
    try:
        require_identity(spec, state.identity(), own_identity(spec, ask_kafka=False))
    except UsageError as error:
        return error.message, error.hint
    return None


def _as_the_source_says(link: LinkProgress, sources: Sequence[SourceStatus]) -> LinkProgress:
    """A capture's lag as its source tells it, which is true also while nobody mirrors the capture."""
    told = next((source for source in sources if source.source == link.link), None)
    if told is None or told.position is None:
        return link
    if told.lag_bytes is None:
        # The mirror may be from before it fell behind.
        return replace(link, lag_seconds=None, lag_bytes=None, behind_since_ms=None)
    behind_since_ms = told.oldest_ahead_ms
    if behind_since_ms is None:
        behind_since_ms = link.behind_since_ms or link.updated_at_ms
    return replace(link, lag_bytes=told.lag_bytes, behind_since_ms=behind_since_ms, position=str(told.position))


def _ask_holder(spec: PipelineSpec) -> tuple[str | None, str]:
    """Who runs the pipeline; or None, and why nobody knows."""
    lock = open_lock(spec)
    try:
        return lock.holder(), ""
    except UnavailableError as error:
        return None, error.message


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
