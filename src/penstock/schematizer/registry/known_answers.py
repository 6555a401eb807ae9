"""Answers to registrations that changed nothing, kept for whoever sends the same again.

An answer is kept with the row on which it rests. Before it is given again the
database is asked whether that row still says so: an answer is never older than
its request, whoever else writes to the database. Requests that come while the
database is being asked are asked for together afterwards, so many cost little
more than one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from sqlalchemy import BindParameter, and_, bindparam, exists, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import aliased

from penstock.schematizer.storage.models import SchemaKind, Status, Subject, SubjectVersion, TableRegistration, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection

    from penstock.schematizer.storage.database import Database

_ANSWERS_MAX = 10_000
_BYTES_MAX = 64 << 20
# SQLite takes no more than some 32,000 parameters; nor should any answer wait for a very long question.
_ASKED_AT_ONCE_MAX = 1_000


class Ground(Enum):
    """What kind of row an answer rests on: a version of a subject, or a registration of a table."""

    VERSION = "version"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Known:
    """The row that makes an answer true for as long as it stands."""

    ground: Ground
    row_id: int


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """An answer and the row that it rests on."""

    known: Known
    body: bytes


class KnownAnswers:
    """The answers that were given last. For use from one thread: the event loop's."""

    def __init__(self, database: Database) -> None:
        """Begin empty; ask `database` before an answer is given again."""
        self._database = database
        # One question at a time; and not behind the routes' work, which may wait for locks.
        self._thread = ThreadPoolExecutor(1, "known-answers")
        self._answers: OrderedDict[bytes, KnownAnswer] = OrderedDict()
        self._bytes = 0
        self._waiting: dict[Known, asyncio.Future[bool]] = {}
        self._asking: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End the thread that asks."""
        self._thread.shutdown()

    def put(self, request: bytes, answer: KnownAnswer) -> None:
        """Keep the answer to `request`, and forget the oldest if there are too many."""
        self._forget(request)
        self._answers[request] = answer
        self._bytes += len(answer.body)
        while len(self._answers) > _ANSWERS_MAX or self._bytes > _BYTES_MAX:
            self._forget(next(iter(self._answers)))

    async def get(self, request: bytes) -> bytes | None:
        """Return the answer to `request` if one is kept and still holds, else None."""
        answer = self._answers.get(request)
        if answer is None:
            return None
        if not await self._holds(answer.known):
            self._forget(request)
            return None
        return answer.body

    def _forget(self, request: bytes) -> None:
        answer = self._answers.pop(request, None)
        if answer is not None:
            self._bytes -= len(answer.body)

    async def _holds(self, known: Known) -> bool:
        waiting = self._waiting.get(known)
        if waiting is None:
            waiting = self._waiting[known] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all())
        # Whoever hangs up must not take the question from the others.
        return await asyncio.shield(waiting)

    async def _ask_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            asked = dict(list(self._waiting.items())[:_ASKED_AT_ONCE_MAX])
            self._waiting = {known: future for known, future in self._waiting.items() if known not in asked}
            try:
                standing = await loop.run_in_executor(self._thread, _read_standing, self._database, list(asked))
            except SQLAlchemyError:
                # Then nothing is known: the routes meet the same, and say so.
                standing = set()
            for known, future in asked.items():
                future.set_result(known in standing)
        self._asking = None


_IDS: BindParameter[list[int]] = bindparam("ids", expanding=True)
_VERSIONS = select(SubjectVersion.id).where(SubjectVersion.id.in_(_IDS), SubjectVersion.status == Status.ENABLED)
_Newer, _Later = aliased(Topic), aliased(TableRegistration)
# The value's schema is still enabled on the topic, the topic is still the newest of its table, and the shape is too.
_TABLES = (
    select(TableRegistration.id)
    .join(Topic, Topic.id == TableRegistration.topic_id)
    .join(Subject, and_(Subject.topic_id == Topic.id, Subject.kind == SchemaKind.VALUE))
    .join(
        SubjectVersion,
        and_(SubjectVersion.subject_id == Subject.id, SubjectVersion.schema_id == TableRegistration.value_schema_id),
    )
    .where(
        TableRegistration.id.in_(_IDS),
        SubjectVersion.status == Status.ENABLED,
        ~exists().where(_Newer.source_id == Topic.source_id, _Newer.ordinal > Topic.ordinal),
        ~exists().where(_Later.source_id == TableRegistration.source_id, _Later.id > TableRegistration.id),
    )
)


def _read_standing(database: Database, asked: Iterable[Known]) -> set[Known]:
    """Return those of `asked` that still hold."""
    with database.engine.connect() as connection:
        return {
            Known(ground, row_id)
            for ground in Ground
            for row_id in _read_ids(connection, ground, [known.row_id for known in asked if known.ground is ground])
        }


def _read_ids(connection: Connection, ground: Ground, row_ids: list[int]) -> Iterable[int]:
    if not row_ids:
        return ()
    return connection.scalars(_VERSIONS if ground is Ground.VERSION else _TABLES, {"ids": row_ids})
