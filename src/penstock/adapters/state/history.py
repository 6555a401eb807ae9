"""The state database behind `penstock.ports.history.History`: samples of links, embedded servers, police."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import LINK_SAMPLES, POLICE_LOOKS, SERVER_CONDITION
from penstock.adapters.state.upserts import upsert
from penstock.core.topic_policy import PolicyFinding, PolicyLook, PolicyReport
from penstock.ports.history import DAY, HOUR, Sample, ServerCondition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Engine

    from penstock.ports.history import Ring

_FIRST_SLOTS = {HOUR: 0, DAY: HOUR.size}
"""Where each ring begins among the slots of a link."""

# SQLite lets a reader become a writer only if nobody else wrote in between.
_WRITE = "BEGIN IMMEDIATE"


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
        """Keep a sample of each link in the slots of its time, which those of an hour and of a day ago had."""
        with transaction(self._engine, _WRITE) as connection:
            daily = self._over_five_minutes(connection, samples)
            rows = [self._row(HOUR, link, sample) for link, sample in sorted(samples.items())]
            rows += [self._row(DAY, link, sample) for link, sample in sorted(daily.items())]
            upsert(connection, LINK_SAMPLES, rows)

    def samples(self, ring: Ring, since_ms: int) -> Mapping[str, Sequence[Sample]]:
        """The samples of each link that `ring` has from `since_ms` on, oldest first."""
        columns, first = LINK_SAMPLES.c, _FIRST_SLOTS[ring]
        wanted = select(LINK_SAMPLES).where(
            columns.pipeline == self._pipeline,
            columns.slot.between(first, first + ring.size - 1),
            columns.at_ms >= since_ms,
        )
        with transaction(self._engine) as connection:
            rows = connection.execute(wanted.order_by(columns.at_ms)).all()
        found: dict[str, list[Sample]] = defaultdict(list)
        for row in rows:
            found[row.link].append(Sample(row.at_ms, row.carried_rows, row.lag_seconds))
        return found

    def _row(self, ring: Ring, link: str, sample: Sample) -> dict[str, object]:
        return {
            "pipeline": self._pipeline,
            "link": link,
            "slot": _slot(ring, sample.at_ms),
            "at_ms": sample.at_ms,
            "carried_rows": sample.rows,
            "lag_seconds": sample.lag_seconds,
        }

    def _over_five_minutes(self, connection: Connection, samples: Mapping[str, Sample]) -> Mapping[str, Sample]:
        """Add to each sample the greatest lag that its five minutes had, by this run or the one before."""
        columns = LINK_SAMPLES.c
        slots = {_slot(DAY, sample.at_ms) for sample in samples.values()}
        wanted = select(columns.link, columns.at_ms, columns.lag_seconds)
        wanted = wanted.where(columns.pipeline == self._pipeline, columns.slot.in_(slots))
        before = {row.link: row for row in connection.execute(wanted)}
        found = {}
        for link, sample in samples.items():
            lags = [sample.lag_seconds]
            if link in before and _turn(before[link].at_ms) == _turn(sample.at_ms):
                lags.append(before[link].lag_seconds)
            found[link] = replace(sample, lag_seconds=max((lag for lag in lags if lag is not None), default=None))
        return found

    def save_police(self, look: PolicyLook) -> None:
        """Replace what the look before has found."""
        told = {
            "without_rule": look.report.without_rule,
            "findings": [asdict(finding) for finding in look.report.findings],
        }
        row = {
            "pipeline": self._pipeline,
            "looked_at_ms": look.at_ms,
            "topics": look.report.topics,
            "report": json.dumps(told),
        }
        with transaction(self._engine) as connection:
            upsert(connection, POLICE_LOOKS, [row])

    def police(self) -> PolicyLook | None:
        """The newest look at how topics are kept, None if nobody ever looked."""
        wanted = select(POLICE_LOOKS).where(POLICE_LOOKS.c.pipeline == self._pipeline)
        with transaction(self._engine) as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None:
            return None
        told = json.loads(row.report)
        findings = tuple(PolicyFinding(**finding) for finding in told["findings"])
        return PolicyLook(row.looked_at_ms, PolicyReport(row.topics, tuple(told["without_rule"]), findings))

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


def _slot(ring: Ring, at_ms: int) -> int:
    return _FIRST_SLOTS[ring] + at_ms // (ring.seconds * 1000) % ring.size


def _turn(at_ms: int) -> int:
    """Number the five minutes that a moment is in; a day later its slot has another number."""
    return at_ms // (DAY.seconds * 1000)
