"""What `penstock run --once` says at its end: what it carried, and what it did not."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.cli.console import format_seconds, open_console, say_error, say_note
from penstock.config.places import has_state
from penstock.core.errors import PenstockError
from penstock.core.snapshots import Wanted
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.pipeline_status import known_links
from penstock.wiring.snapshots import read_snapshots
from penstock.wiring.table_sources import sources_to_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import TableProgress

_TABLES_MAX: Final = 20
"""So many tables are told one by one, those with the most rows."""


class Carried:
    """How many rows of each table each link carries from now on, and in how long."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Begin to count, before any link runs."""
        self._spec = spec
        self._began = time.monotonic()
        self._before = {(each.link, each.table): each.rows for each in _tables(spec)}

    def say(self) -> None:
        """Write on standard error what was carried, which tables are stopped, and which snapshots go on later."""
        try:
            tables = _tables(self._spec)
        except PenstockError as error:
            say_note(f"what was carried could not be asked: {error.message}")
            return
        self._say_rows(tables)
        stopped = [table for table in tables if table.error]
        for table in stopped:
            say_error(table.error, table.hint)
        if stopped:
            names = {table.table for table in stopped}
            say_note(f"{len(names)} table(s) are stopped, see above; the others are carried")
        self._say_open_snapshots()

    def _say_rows(self, tables: Sequence[TableProgress]) -> None:
        rows: dict[str, dict[str, int]] = {}
        for each in tables:
            # A table that begins anew counts from 0.
            before = self._before.get((each.link, each.table), 0)
            if carried := each.rows - before if each.rows >= before else each.rows:
                rows.setdefault(each.table, {})[each.link] = carried
        took = format_seconds(time.monotonic() - self._began)
        if not rows:
            say_note(f"nothing was new; took {took}")
            return
        shown = sorted(rows, key=lambda table: (-max(rows[table].values()), table))[:_TABLES_MAX]
        links = [link for link in known_links(self._spec) if any(link in found for found in rows.values())]
        open_console(stderr=True).print(_drawn({table: rows[table] for table in shown}, links))
        more = f", of which {len(shown)} are shown" if len(shown) < len(rows) else ""
        say_note(f"carried rows of {len(rows)} table(s){more} in {took}")

    def _say_open_snapshots(self) -> None:
        """Name the snapshots that had to wait for something else."""
        try:
            listed = read_snapshots(self._spec)
        except PenstockError as error:
            say_note(f"which snapshots are not finished could not be asked: {error.message}")
            return
        sources = sources_to_name(self._spec, [(each.source, each.table) for each in listed])
        for each in listed:
            if each.wanted is Wanted.RUN and not each.status.has_ended:
                source = sources.get((each.source, each.table), "")
                table = f"{each.table}{source and f' of {source}'}"
                say_note(f"the snapshot of {table} goes on at the next run{each.error and f': {each.error}'}")


def _tables(spec: PipelineSpec) -> Sequence[TableProgress]:
    """How far each link is with each table, of the links that the file has."""
    if not has_state(spec):
        return []
    names = set(known_links(spec))
    with closing(open_pipeline_state(spec)) as state:
        return [table for table in state.tables() if table.link in names]


def _drawn(rows: Mapping[str, Mapping[str, int]], links: Sequence[str]) -> Table:
    from rich import box  # noqa: PLC0415 - it takes a tenth of a second to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE)
    table.add_column("table", overflow="fold")
    for link in links:
        table.add_column(Text(link), justify="right")
    for name, found in rows.items():
        table.add_row(Text(name), *(f"{found[link]:,}" if link in found else "" for link in links))
    return table
