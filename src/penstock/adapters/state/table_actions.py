"""What people ask for of tables (ports/table_actions.TableActions), in the state database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, not_, select, update
from sqlalchemy.exc import IntegrityError

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import SKIPPED_CHANGES, TABLE_REQUESTS
from penstock.adapters.state.upserts import upsert
from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.ports.table_actions import Action, SkippedChange, Stage, TableRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine

_WRITE = "BEGIN IMMEDIATE"


def open_table_actions(url: str, pipeline: str) -> SqlTableActions:
    """Open the state database at `url`, as `open_state` does."""
    return SqlTableActions(open_current(url), pipeline)


class SqlTableActions:
    """A `TableActions`. Every method raises UnavailableError when the database is away, busy or full."""

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._pipeline = pipeline

    def ask(self, *requests: TableRequest) -> None:
        """See ports/table_actions.TableActions."""
        with transaction(self._engine, _WRITE) as connection:
            for request in requests:
                self._ask(connection, request)

    def begin(self, request: TableRequest) -> bool:
        """See ports/table_actions.TableActions."""
        return self._move(request, {"stage": Stage.BEGUN})

    def end(self, request: TableRequest, stage: Stage, told: str) -> None:
        """See ports/table_actions.TableActions."""
        self._move(request, {"stage": stage, "told": told, "ended_at_ms": _now_ms()})

    def requests(self, link: str | None = None) -> Sequence[TableRequest]:
        """See ports/table_actions.TableActions."""
        table = TABLE_REQUESTS
        query = select(table).where(table.c.pipeline == self._pipeline)
        if link is not None:
            query = query.where(table.c.link == link)
        with transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(table.c.link, table.c.table_name)).all()
        return [
            TableRequest(
                row.request_id,
                row.link,
                row.table_name,
                Action(row.action),
                row.asked_by,
                Stage(row.stage),
                row.asked_at_ms,
                row.ended_at_ms,
                row.told,
            )
            for row in rows
        ]

    def keep_skipped(self, change: SkippedChange) -> None:
        """See ports/table_actions.TableActions."""
        row = {
            "pipeline": self._pipeline,
            "link": change.link,
            "topic": change.topic,
            "topic_partition": change.partition,
            "topic_offset": change.offset,
            "table_name": change.table,
            "changed_row": change.row,
            "reason": change.reason,
            "request_id": change.request,
            "skipped_at_ms": _now_ms(),
        }
        with transaction(self._engine) as connection:
            upsert(connection, SKIPPED_CHANGES, [row])

    def forget_skipped(self, request: TableRequest) -> None:
        """See ports/table_actions.TableActions."""
        kept = SKIPPED_CHANGES
        mine = [kept.c.pipeline == self._pipeline, kept.c.link == request.link, kept.c.request_id == request.id]
        with transaction(self._engine) as connection:
            connection.execute(delete(kept).where(*mine))

    def skipped(self, link: str, table: str) -> Sequence[SkippedChange]:
        """See ports/table_actions.TableActions."""
        kept = SKIPPED_CHANGES
        query = select(kept).where(kept.c.pipeline == self._pipeline, kept.c.link == link, kept.c.table_name == table)
        with transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(kept.c.skipped_at_ms, kept.c.topic_offset)).all()
        return [
            SkippedChange(
                row.link,
                row.table_name,
                row.topic,
                row.topic_partition,
                row.topic_offset,
                row.changed_row,
                row.reason,
                row.request_id,
                row.skipped_at_ms,
            )
            for row in rows
        ]

    def skipped_counts(self) -> Mapping[tuple[str, str], int]:
        """See ports/table_actions.TableActions."""
        kept = SKIPPED_CHANGES
        query = select(kept.c.link, kept.c.table_name, func.count()).where(kept.c.pipeline == self._pipeline)
        with transaction(self._engine) as connection:
            rows = connection.execute(query.group_by(kept.c.link, kept.c.table_name)).all()
        return {(str(link), str(table)): int(count) for link, table, count in rows}

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def _ask(self, connection: Connection, request: TableRequest) -> None:
        table = TABLE_REQUESTS
        key = {"pipeline": self._pipeline, "link": request.link, "table_name": request.table}
        there = [table.c[name] == value for name, value in key.items()]
        row = {
            "request_id": request.id,
            "action": request.action,
            "asked_by": request.asked_by,
            "stage": Stage.ASKED,
            "asked_at_ms": _now_ms(),
            "ended_at_ms": 0,
            "told": "",
        }
        is_dropped = and_(table.c.action == Action.DROP, table.c.stage == Stage.DONE)
        free = update(table).where(*there, table.c.stage != Stage.BEGUN, not_(is_dropped)).values(row)
        if connection.execute(free).rowcount:
            return
        before = connection.execute(select(table.c.stage).where(*there)).scalar()
        if before == Stage.DONE:
            message = f"{request.table} is dropped at {request.link}"
            raise UsageError(
                message, f"to bring it back: penstock snapshot FILE {shell_word(request.table)} --full-refresh"
            )
        try:
            if before is None:
                connection.execute(insert(table).values({**key, **row}))
                return
        except IntegrityError as error:
            raise _is_busy(request) from error
        raise _is_busy(request)

    def _move(self, request: TableRequest, values: Mapping[str, object]) -> bool:
        with transaction(self._engine) as connection:
            return bool(connection.execute(update(TABLE_REQUESTS).where(*self._is(request)).values(values)).rowcount)

    def _is(self, request: TableRequest) -> list[ColumnElement[bool]]:
        table = TABLE_REQUESTS
        return [
            table.c.pipeline == self._pipeline,
            table.c.link == request.link,
            table.c.table_name == request.table,
            table.c.request_id == request.id,
        ]


def _is_busy(request: TableRequest) -> UsageError:
    message = f"something else is being done to {request.table} at {request.link}"
    return UsageError(message, f"wait until it has ended; see it: penstock table FILE {shell_word(request.table)}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
