"""Snapshots that people ask for; refreshing.py carries them."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.config.places import has_state
from penstock.core.errors import PenstockError, UsageError
from penstock.core.snapshots import Method, Status, Wanted
from penstock.core.tables import TableId
from penstock.links.capture.rereads import paused_tables
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.carried_requests import carried_requests, carries
from penstock.wiring.open import open_snapshot_list, open_table_actions
from penstock.wiring.refreshing import new_snapshot
from penstock.wiring.table_sources import carriers, in_command, only_source, source_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.snapshots import SnapshotOptions
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.snapshots import Snapshot, SnapshotList


def has_snapshots(spec: CaptureSpec, rereads: Collection[str], *, were_tried: bool) -> bool:
    """Whether a snapshot of the source is to go on, or to begin since rows of a table in `rereads` are read again.

    Those that `were_tried` do not count while they have to wait for something else, which may take hours.
    """
    if not spec.pipeline.kafka.transactions:
        return False
    with closing(open_snapshot_list(spec.pipeline)) as snapshots:
        is_open = snapshots.all(spec.source_name, is_open=True)
    going_on = [each for each in is_open if each.wanted is not Wanted.PAUSE]
    if were_tried and going_on and not any(_waits_for_nothing(each) for each in going_on) and _wait(spec):
        return not {each.table for each in is_open}.issuperset(rereads)
    return bool(going_on) or not paused_tables(is_open).issuperset(rereads)


def _waits_for_nothing(snapshot: Snapshot) -> bool:
    return snapshot.wanted is Wanted.CANCEL or snapshot.options.method is Method.FULL_LOCK


def _wait(spec: CaptureSpec) -> bool:
    """Whether no chunk can be read without a lock, for something else has to come first."""
    with (
        closing(capture_kind(spec.source).rows(spec.source, spec.pipeline.pipeline)) as reader,
        suppress(PenstockError),
    ):
        return reader.waits() is not None
    # Whoever tries it says what is wrong.
    return False


def ask_for_snapshots(
    spec: PipelineSpec, tables: Sequence[str], options: SnapshotOptions, source_name: str = ""
) -> Sequence[Snapshot]:
    """Ask for a snapshot of each of `tables`, all or none. Raises UsageError for what cannot work.

    Tables are of the source `source_name`; if that is "", of that of the link in `options`, or of the only
    source that carries them.
    """
    if not spec.kafka.transactions:
        message = "a snapshot commits its rows and its progress in one Kafka transaction, and `transactions` is false"
        raise UsageError(message, "use brokers that can do transactions")
    if not has_state(spec):
        message = "this pipeline has not run yet, and its first start decides by `start` which rows it reads"
        raise UsageError(message, "start it: penstock run FILE")
    sources = [source_of(spec, table, source_name, options.link) for table in tables]
    asked = [new_snapshot(source, table, options) for source, table in zip(sources, tables, strict=True)]
    if not options.full_refresh:
        _refuse_dropped(spec, asked)
    for each in asked:
        _require_link(spec, each)
        source = spec.source(each.source)
        with closing(capture_kind(source).rows(source, spec.pipeline)) as reader:
            reader.check(TableId.parse(each.table), options)
    with closing(open_snapshot_list(spec)) as snapshots:
        is_open = snapshots.all(is_open=True)
        replaced = {each.id for each in is_open if options.full_refresh and _is_nobodys(spec, each)}
        busy = {(each.source, each.table) for each in is_open if each.id not in replaced}
        for each in asked:
            if (each.source, each.table) in busy:
                message = f"a snapshot of {each.table} is under way already"
                typed = in_command(spec, each.source, each.table)
                way = f"penstock snapshot FILE {typed} --cancel"
                raise UsageError(message, f"wait for it, or end it: {way}")
        for each in asked:
            snapshots.add(each, in_place_of=replaced)
    return asked


def _is_nobodys(spec: PipelineSpec, snapshot: Snapshot) -> bool:
    """Whether a snapshot is for a link that the file does not have. Its end changes nothing for any that it has."""
    return bool(snapshot.options.link) and snapshot.options.link not in {link.name for link in spec.links}


def want_snapshots(
    spec: PipelineSpec, tables: Sequence[str], wanted: Wanted, source_name: str = ""
) -> Sequence[Snapshot]:
    """Pause, resume or cancel what is under way of `tables`; to cancel one that is told as an error is to let it be.

    All or none. Raises UsageError where there is nothing, and for a table of several sources if `source_name` is "".
    """
    if not has_state(spec):
        message = "this pipeline has not run yet, and has no snapshots"
        raise UsageError(message, "start it: penstock run FILE")
    with closing(open_snapshot_list(spec)) as snapshots:
        there = {(each.source, each.table): each for each in snapshots.all(is_open=True)}
        if wanted is Wanted.CANCEL:
            ended = [each for each in newest_snapshots(snapshots) if each.status.has_ended and each.error]
            there = {(each.source, each.table): each for each in ended} | there
        meant = [_meant(spec, there, table, source_name) for table in tables]
        return [_want(snapshots, each, wanted) for each in meant]


def _meant(spec: PipelineSpec, there: Mapping[tuple[str, str], Snapshot], table: str, source_name: str) -> Snapshot:
    """The snapshot of `table` that is there. The file may have lost the table, or its source, since."""
    found = [source for source, name in there if name == table and source_name in {"", source}]
    if not found:
        message = f"no snapshot of {table}{source_name and f' of {source_name}'} is under way"
        raise UsageError(message, "see what is: penstock snapshot FILE --status")
    return there[only_source(table, dict.fromkeys((*carriers(spec, table), *found)), source_name), table]


def _want(snapshots: SnapshotList, snapshot: Snapshot, wanted: Wanted) -> Snapshot:
    snapshots.want(snapshot.id, wanted)
    told = replace(snapshot, wanted=wanted)
    if snapshot.status.has_ended:
        told = replace(told, status=Status.CANCELLED, error="", hint="")
        snapshots.tell(told)
    return told


def read_snapshots(spec: PipelineSpec, tables: Sequence[str] = (), source_name: str = "") -> Sequence[Snapshot]:
    """The newest snapshot of each of `tables`, by default of all that had one; none of a pipeline that never ran.

    With `source_name` only those of this source.
    """
    if not has_state(spec):
        return []
    with closing(open_snapshot_list(spec)) as snapshots:
        newest = [each for each in newest_snapshots(snapshots) if source_name in {"", each.source}]
        return [each for each in newest if not tables or each.table in tables]


def newest_snapshots(snapshots: SnapshotList) -> Sequence[Snapshot]:
    """The newest snapshot of each table that had one."""
    return list({(each.source, each.table): each for each in snapshots.all()}.values())


def _require_link(spec: PipelineSpec, asked: Snapshot) -> None:
    """Raise UsageError if the link that a snapshot is for does not load its table."""
    links = [
        link for link in spec.links if link.source == asked.source and carries(spec, link, TableId.parse(asked.table))
    ]
    if asked.options.link and asked.options.link not in {link.name for link in links}:
        message = f"no link called {asked.options.link} loads {asked.table}"
        hint = f"those that do: {', '.join(link.name for link in links)}" if links else "leave --link out"
        raise UsageError(message, hint)


def _refuse_dropped(spec: PipelineSpec, asked: Sequence[Snapshot]) -> None:
    """Raise UsageError for a table that a target has forgotten: rows alone would not let it begin anew there."""
    with closing(open_table_actions(spec)) as actions:
        requests = [each for each in carried_requests(spec, actions) if each.has_dropped]
    sources = {link.name: link.source for link in spec.links}
    dropped = {(sources[each.link], each.table): each.link for each in requests}
    for each in asked:
        if link := dropped.get((each.source, each.table)):
            message = f"{each.table} was dropped at {link}, and comes back there only from its beginning"
            typed = in_command(spec, each.source, each.table)
            raise UsageError(message, f"type: penstock snapshot FILE {typed} --full-refresh")
