"""Checkpoints of links that publish without transactions (ports/checkpoints.Checkpoints), in the state database."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, select, update

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import PUBLISHED_RECORDS, PUBLISHED_TOPICS
from penstock.adapters.state.upserts import upsert
from penstock.core.errors import STOP_ONE, DisplacedError
from penstock.core.topic_fingerprints import TopicState
from penstock.ports.checkpoints import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine, Table, Update
    from sqlalchemy.sql.elements import ColumnElement

# SQLite lets a reader become a writer only if nobody else wrote in between.
_WRITE = "BEGIN IMMEDIATE"


def open_checkpoints(url: str, pipeline: str, link: str) -> SqlCheckpoints:
    """Open the state database at `url`, as `open_state` does."""
    return SqlCheckpoints(open_current(url), pipeline, link)


class SqlCheckpoints:
    """One link's checkpoint. `take_over` counts up its turn, and only the newest turn may save.

    Every method raises UnavailableError when the database is away, busy or full.
    """

    def __init__(self, engine: Engine, pipeline: str, link: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._key = {"pipeline": pipeline, "link": link}
        self._turn = 0

    def read(self) -> Checkpoint:
        """See ports/checkpoints.Checkpoints."""
        with transaction(self._engine) as connection:
            return self._read(connection)

    def take_over(self) -> Checkpoint:
        """See ports/checkpoints.Checkpoints."""
        table = PUBLISHED_RECORDS
        first = {**self._key, "turn": 1, "record": "", "ahead": "", "updated_at_ms": _now_ms()}
        with transaction(self._engine, _WRITE) as connection:
            # A row that is there already has its turn counted up, which locks it until we are done.
            upsert(connection, table, [first], adding=("turn",), keeping=("record", "ahead"))
            self._turn = connection.execute(select(table.c.turn).where(*self._mine(table))).scalar_one()
            return self._read(connection)

    def save(self, topics: Mapping[str, TopicState], *, record: str | None = None, ahead: str | None = None) -> None:
        """See ports/checkpoints.Checkpoints."""
        now_ms = _now_ms()
        given = {"record": record, "ahead": ahead, "updated_at_ms": now_ms}
        values = {name: value for name, value in given.items() if value is not None}
        turn = {f"own_{name}": value for name, value in {**self._key, "turn": self._turn}.items()}
        rows = [
            {
                **self._key,
                "topic": topic,
                "topic_id": state.id,
                "ends": json.dumps(state.ends),
                "updated_at_ms": now_ms,
            }
            for topic, state in sorted(topics.items())
        ]
        with transaction(self._engine, _WRITE) as connection:
            if connection.execute(_update_of_turn(*values), {**values, **turn}).rowcount != 1:
                message = f"another publisher of {self._key['link']} has taken over: this one may no longer publish"
                raise DisplacedError(message, f"{STOP_ONE}; what this one sent last is not counted")
            upsert(connection, PUBLISHED_TOPICS, rows)

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def _read(self, connection: Connection) -> Checkpoint:
        records, topics = PUBLISHED_RECORDS, PUBLISHED_TOPICS
        row = connection.execute(select(records).where(*self._mine(records))).one_or_none()
        if row is None:
            return Checkpoint()
        found = connection.execute(select(topics).where(*self._mine(topics))).all()
        states = {each.topic: TopicState(each.topic_id, tuple(json.loads(each.ends))) for each in found}
        return Checkpoint(row.record, row.ahead, states)

    def _mine(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return tuple(table.c[name] == value for name, value in self._key.items())


# Saved many times a second: making the statement takes longer than executing it.
@cache
def _update_of_turn(*changed: str) -> Update:
    """Change columns of the record of `own_pipeline` and `own_link`, if its turn is still `own_turn`."""
    table = PUBLISHED_RECORDS
    own = [table.c[name] == bindparam(f"own_{name}") for name in ("pipeline", "link", "turn")]
    return update(table).where(*own).values({name: bindparam(name) for name in changed})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
