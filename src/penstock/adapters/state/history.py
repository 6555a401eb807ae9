"""The state database behind `penstock.ports.history.History`: a ring of samples per link, and embedded servers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import LINK_SAMPLES, SERVER_CONDITION
from penstock.adapters.state.upserts import upsert
from penstock.ports.history import SAMPLE_SECONDS, SAMPLES_MAX, Sample, ServerCondition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Engine

_SLOT_MS = SAMPLE_SECONDS * 1000


def open_history(url: str, pipeline: str) -> SqlHistory:
    """Open the state database at `url`, as `open_state` does."""
    return SqlHistory(open_current(url), pipeline)


class SqlHistory:
    """One pipeline's history. Every method is one transaction, and raises UnavailableError as SqlState's do."""

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._pipeline = pipeline

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def add_samples(self, samples: Mapping[str, Sample]) -> None:
        """Keep a sample of each link in the slot of its time, which the one of an hour ago had."""
        rows = [
            {
                "pipeline": self._pipeline,
                "link": link,
                "slot": sample.at_ms // _SLOT_MS % SAMPLES_MAX,
                "at_ms": sample.at_ms,
                "carried_rows": sample.rows,
                "lag_seconds": sample.lag_seconds,
            }
            for link, sample in sorted(samples.items())
        ]
        with transaction(self._engine) as connection:
            upsert(connection, LINK_SAMPLES, rows)

    def samples(self, since_ms: int) -> Mapping[str, Sequence[Sample]]:
        """The samples of each link from `since_ms` on, oldest first."""
        table = LINK_SAMPLES
        wanted = select(table).where(table.c.pipeline == self._pipeline, table.c.at_ms >= since_ms)
        with transaction(self._engine) as connection:
            rows = connection.execute(wanted.order_by(table.c.at_ms)).all()
        found: dict[str, list[Sample]] = defaultdict(list)
        for row in rows:
            found[row.link].append(Sample(row.at_ms, row.carried_rows, row.lag_seconds))
        return found

    def save_servers(self, servers: Sequence[ServerCondition]) -> None:
        """Replace what is known of the embedded servers, all of them in one step."""
        table = SERVER_CONDITION
        rows = [
            {
                "pipeline": self._pipeline,
                "server": each.server,
                "state": each.state,
                "since_ms": each.since_ms,
                "restarts": each.restarts,
            }
            for each in servers
        ]
        with transaction(self._engine) as connection:
            connection.execute(delete(table).where(table.c.pipeline == self._pipeline))
            upsert(connection, table, rows)

    def servers(self) -> Sequence[ServerCondition]:
        """The embedded servers, sorted by name."""
        table = SERVER_CONDITION
        with transaction(self._engine) as connection:
            rows = connection.execute(select(table).where(table.c.pipeline == self._pipeline)).all()
        found = [ServerCondition(row.server, row.state, row.since_ms, row.restarts) for row in rows]
        return sorted(found, key=lambda each: each.server)
