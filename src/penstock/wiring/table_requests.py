"""Asking a pipeline's loading links to do something with one table."""

from __future__ import annotations

import difflib
import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.config.places import has_state
from penstock.core.errors import UsageError
from penstock.core.tables import TableId
from penstock.ports.table_actions import Action, TableRequest
from penstock.wiring.open import OBJECTS_LINK, open_pipeline_state, open_table_actions
from penstock.wiring.table_sources import in_command, source_at, source_of, sources_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import TableProgress

_POLL_SECONDS = 0.2


def ask_for_action(
    spec: PipelineSpec, table: str, action: Action, link: str | None, asked_by: str, source_name: str = ""
) -> Sequence[TableRequest]:
    """Ask for `action` at `link`, by default at every link that it is for; all or none.

    Raises UsageError for a table or a link that is not there, for an action that
    changes nothing, and while another one is being done.
    """
    links = links_of(spec, table, link, source_name)
    source = source_at(spec, links[0])
    with closing(open_pipeline_state(spec)) as state:
        progress = {each.link: each for each in state.tables() if each.table == table}
        seen = {each.table for each in state.tables()}
    if not progress:
        raise _unknown_table(table, seen)
    with closing(open_table_actions(spec)) as actions:
        newest = {each.link: each for each in actions.requests() if each.table == table}
        mine = {name: each for name, each in progress.items() if name in {source, *links}}
        meant = _meant((table, in_command(spec, source, table)), action, links, newest, mine)
        asked = [TableRequest(uuid.uuid4().hex[:12], each, table, action, asked_by) for each in meant]
        actions.ask(*asked)
    return asked


def links_of(spec: PipelineSpec, table: str, link: str | None, source_name: str = "") -> Sequence[str]:
    """The loading links that carry `table` of its source, or `link` alone.

    Raises UsageError where there is none, and for a table of several sources if neither it nor `link` says of which.
    """
    if not has_state(spec):
        message = "this pipeline has not run yet, and has no tables"
        raise UsageError(message, "start it: penstock run FILE")
    is_open = link is not None and not source_name
    sources = sources_with(spec, table) if is_open else [source_of(spec, table, source_name, link or "")]
    found = [each.name for each in spec.links if each.source in sources and each.patterns.matches(TableId.parse(table))]
    listed = ", ".join(found) or "none"
    if link is None and not found:
        message = f"no link loads {table} into a target"
        raise UsageError(message, "name a table that a link of the file loads; see them: penstock status FILE")
    if link is not None and link not in found:
        others = {OBJECTS_LINK, *(each.name for each in (*spec.sources, *spec.spolts, *spec.joins))}
        reason = "reads one log for all of its tables" if link in others else f"does not load {table}"
        message = f"{link} {reason}"
        raise UsageError(message, f"name a link that loads {table} into a target: {listed}")
    return found if link is None else [link]


def await_requests(spec: PipelineSpec, asked: Sequence[TableRequest], seconds: float) -> Sequence[TableRequest]:
    """Look at `asked` until all of it has ended, for at most `seconds`; return it as it is then."""
    ids = {each.id for each in asked}
    until = time.monotonic() + seconds
    with closing(open_table_actions(spec)) as actions:
        while True:
            found = [each for each in actions.requests() if each.id in ids]
            if time.monotonic() >= until or not any(each.is_open for each in found):
                return found
            time.sleep(_POLL_SECONDS)


def still_stopped(spec: PipelineSpec, table: str, links: Collection[str], seconds: float) -> Sequence[TableProgress]:
    """Look until `table` goes on at all of `links`, for at most `seconds`; return it where it does not."""
    until = time.monotonic() + seconds
    with closing(open_pipeline_state(spec)) as state:
        while True:
            found = [each for each in state.tables() if each.table == table and each.link in links and each.error]
            if not found or time.monotonic() >= until:
                return found
            time.sleep(_POLL_SECONDS)


def _meant(
    named: tuple[str, str],
    action: Action,
    links: Sequence[str],
    newest: Mapping[str, TableRequest],
    progress: Mapping[str, TableProgress],
) -> Sequence[str]:
    """The links at which `action` changes something. Raises UsageError where there is none.

    `named` is the table, and how a command names it.
    """
    table, typed = named
    paused = {link for link in links if link in newest and newest[link].pauses}
    dropped = {link for link in links if link in newest and newest[link].has_dropped}
    stopped = {link for link in links if link in progress and progress[link].error}
    match action:
        case Action.PAUSE:
            meant, why = set(links) - paused - dropped, "is paused or dropped already"
        case Action.DROP:
            meant, why = set(links) - dropped, "is dropped already"
        case Action.RESUME | Action.SKIP:
            meant, why = (paused | stopped) - dropped, "neither stopped nor is paused"
    if not meant:
        hint = f"see how it is: penstock table FILE {typed}"
        if dropped:
            hint = f"to bring a table back that was dropped: penstock snapshot FILE {typed} --full-refresh"
        elif action is Action.SKIP and any(each.error for each in progress.values()):
            hint = f"it stopped in the capture, which has gone past it; read it again: penstock snapshot FILE {typed}"
        message = f"{table} {why} at {', '.join(links)}"
        raise UsageError(message, hint)
    return [link for link in links if link in meant]


def _unknown_table(table: str, seen: set[str]) -> UsageError:
    near = difflib.get_close_matches(table, seen, 3)
    message = f"no link has seen a table {table}"
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return UsageError(message, f"{meant}see the tables: penstock status FILE")
