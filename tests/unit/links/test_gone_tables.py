"""Tables that a source has no more, of which its log does not tell."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
from tests.servers.followed_log import MemoryRegistry

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.core.errors import UnavailableError
from penstock.core.positions import WalPosition
from penstock.core.publication import StoppedTable
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.gone_tables import GoneTables
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.relations import Gone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.core.changes import Messages
    from penstock.ports.publisher import CapturePublisher
    from penstock.ports.replay import Replay

_COLUMNS = (Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="integer", number=1),)
_KEPT, _GONE = 16400, 16500
_Answer = TypeVar("_Answer")


class _Topics:
    """A publisher that keeps the schema-change events that were committed."""

    def __init__(self) -> None:
        self.told: list[SchemaChange] = []

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        record()
        self.told += [SchemaChange.from_json(value) for part in messages for value in part.values.to_pylist() if value]


class _Case:
    """A capture of two tables, and a catalog that answers what it is told to, when it is told to."""

    def __init__(self) -> None:
        relations = PostgresRelations(PostgresServer("127.0.0.1", 9, "db", "user", "", {}), "publication")
        registered = RegisteredCatalog(relations, "stop")
        self.catalog = TableCatalog("src", registered, MemoryRegistry(), [], lambda table: table.name != "left")
        for name, number in (("kept", _KEPT), ("gone", _GONE), ("left", 16600)):
            schema = TableSchema(TableId("public", name), _COLUMNS, ("id",), partial_rows=True, number=number)
            self.catalog.announce(
                self.catalog.event_of(schema, self.catalog.register(schema, ""), WalPosition(50).order)
            )
        self.topics = _Topics()
        parts = CaptureParts(cast("CapturePublisher", self.topics), self.catalog, cast("Replay", None), "schemas")
        self.capture = OpenCapture(parts, 1, WalPosition(100), 0)
        self.asked: list[Collection[int]] = []
        self.new_asked = 0
        self.answer: Gone | UnavailableError = Gone(frozenset({_GONE}), WalPosition(200))
        self.gone = GoneTables(self.capture, self._ask, self._start, self._ask_for_new)

    def _ask_for_new(self) -> None:
        self.new_asked += 1
        if self.new_asked == 1:
            message = "it is away"
            raise UnavailableError(message, "wait")

    def _ask(self, numbers: Collection[int]) -> Gone:
        self.asked.append(numbers)
        if isinstance(self.answer, UnavailableError):
            raise self.answer
        return self.answer

    @staticmethod
    def _start(question: Callable[[], _Answer], /) -> Future[_Answer]:
        future: Future[_Answer] = Future()
        try:
            future.set_result(question())
        except UnavailableError as error:
            future.set_exception(error)
        return future


@pytest.fixture
def case() -> _Case:
    return _Case()


def _told(case: _Case) -> list[str]:
    return [str(told.table) for told in case.topics.told]


def test_a_table_ends_where_the_log_is_read_past_the_look(case: _Case) -> None:
    busy = [case.gone.is_busy]
    for lsn in (150, 199):
        assert case.gone.step(WalPosition(lsn)) == ()
        busy.append(case.gone.is_busy)
    before = list(case.topics.told)

    ended = case.gone.step(WalPosition(208))

    (told,) = case.topics.told
    assert before == []
    assert (str(told.table), told.kind, ended) == ("public.gone", SchemaChangeKind.DROP, [told.table])
    # Behind all rows of transactions that end there, and ahead of those that come.
    assert WalPosition(207).order <= told.order < WalPosition(208).order
    assert case.capture.position == WalPosition(208)
    assert [str(each.table) for each in case.catalog.announced()] == ["public.kept", "public.left"]
    assert case.asked == [frozenset({_KEPT, _GONE})]
    assert busy == [True, True, True]


def test_another_table_may_have_the_name_and_is_looked_for_until_that_is_asked(
    case: _Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.gone.step(WalPosition(208))
    is_busy, case.answer = case.gone.is_busy, Gone(frozenset(), WalPosition(0))
    asked = []
    for _ in range(3):
        case.gone.step(WalPosition(208))
        asked.append(case.new_asked)
        monkeypatch.setattr(case.gone, "_look_at", 1.0)

    assert is_busy
    # The first question found no answer.
    assert asked == [1, 2, 2]
    assert _told(case) == ["public.gone"]


def test_of_one_that_had_stopped_people_are_told_that_it_is_gone(case: _Case) -> None:
    case.capture.stopped["public.gone"] = StoppedTable("0/64", "an error", "a hint")
    for _ in range(5):
        case.gone.step(WalPosition(208))

    assert _told(case) == []
    assert "was dropped or got another name since" in case.capture.stopped["public.gone"].error
    assert not case.gone.is_busy


def test_one_that_stopped_on_another_server_may_have_another_number_here(case: _Case) -> None:
    case.capture.stopped["public.gone"] = stopped = StoppedTable("0/64", "an error", "a hint")
    case.capture.position = WalPosition(100, timeline=1)
    case.gone.step(WalPosition(208, timeline=1))

    assert case.asked == [frozenset({_KEPT})]
    assert case.capture.stopped["public.gone"] == stopped


def test_one_that_begins_anew_meanwhile_does_not_end(case: _Case) -> None:
    case.gone.step(WalPosition(150))
    anew = TableSchema(TableId("public", "gone"), _COLUMNS, ("id",), partial_rows=True, number=16700)
    case.catalog.announce(case.catalog.event_of(anew, case.catalog.register(anew, ""), WalPosition(170).order))
    case.gone.step(WalPosition(208))

    assert _told(case) == []
    assert not case.gone.is_busy


def test_what_another_server_says_ends_nothing(case: _Case) -> None:
    case.answer = Gone(frozenset({_GONE}), WalPosition(200, server_timeline=2))
    case.gone.step(WalPosition(208, server_timeline=1))

    assert _told(case) == []
    assert not case.gone.is_busy


def test_a_source_that_does_not_answer_is_asked_another_time(case: _Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.answer = UnavailableError("it is away", "wait")
    case.gone.step(WalPosition(300))
    case.gone.step(WalPosition(300))
    asked, is_busy = len(case.asked), case.gone.is_busy

    case.answer = Gone(frozenset({_GONE}), WalPosition(200))
    monkeypatch.setattr(case.gone, "_look_at", 1.0)
    case.gone.step(WalPosition(300))

    assert (asked, is_busy) == (1, False)
    assert _told(case) == ["public.gone"]
