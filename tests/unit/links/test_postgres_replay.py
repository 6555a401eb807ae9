"""A table of PostgreSQL whose number was another one's on a server that was read before."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest
from tests.servers.followed_log import MemoryRegistry

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.adapters.state.store import open_state
from penstock.core.positions import WalPosition, in_timeline
from penstock.core.postgres.evolution import partitions_refusal
from penstock.core.postgres.partitions import Partition
from penstock.core.publication import StoppedTable
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.postgres.log_reading import TablesChanged
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.links.capture.postgres.replay import RelationReplay
from penstock.links.capture.table_catalog import TableCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.core.refusals import Refusal
    from penstock.ports.replay import StatementOutcome

_STOPPED = {"public.t": StoppedTable("0/64", "error", "hint")}


class _Replayed:
    """Replays statements, and announces what comes of them, as a capture does."""

    def __init__(self, home: Path) -> None:
        relations = PostgresRelations(PostgresServer("127.0.0.1", 9, "db", "user", "", {}), "publication")
        registered = RegisteredCatalog(relations, "stop")
        self._catalog = TableCatalog("src", registered, MemoryRegistry(), [], lambda _: True)
        registered.follow(self._catalog.announced_schema, self._catalog.with_number)
        self._replay = RelationReplay(open_state(f"sqlite:///{home}/state.db", "p"), self._catalog, registered)

    def see(
        self,
        name: str,
        place: WalPosition,
        stopped: Mapping[str, StoppedTable] = _STOPPED,
        *,
        altered_by: int = 0,
        bits: Literal[16, 32] = 32,
    ) -> StatementOutcome:
        """Let the log show a table of the number that they all have."""
        column = Column("id", IntegerType(bits, unsigned=False), nullable=False, declaration=f"int{bits}", number=1)
        schema = TableSchema(TableId("public", name), (column,), ("id",), partial_rows=True, number=16400)
        schema = replace(schema, publication_altered_by=altered_by)
        outcome = self._replay.apply(TablesChanged((), schema, place, place, place.order, 0, 7), stopped)
        for told in outcome.schema_changes:
            self._catalog.announce(replace(told, order=in_timeline(told.order, place.timeline)))
        return outcome

    def see_refused(self, refused: Refusal, stopped: Mapping[str, StoppedTable]) -> StatementOutcome:
        """Let the log show the announced table again, of which changed rows are not known."""
        place = WalPosition(110)
        shown = TablesChanged((), self.announced("t"), place, place, place.order, 0, 7, refused)
        return self._replay.apply(shown, stopped)

    def announced(self, name: str) -> TableSchema | None:
        return self._catalog.announced_schema(TableId("public", name))

    def close(self) -> None:
        self._replay.close()
        self._catalog.close()


@pytest.fixture
def replayed(tmp_path: Path) -> Iterator[_Replayed]:
    with closing(_Replayed(tmp_path)) as replayed:
        replayed.see("t", WalPosition(100), {})
        yield replayed


def test_a_table_made_behind_a_new_slot_is_not_the_stopped_one_that_had_its_number(replayed: _Replayed) -> None:
    (made,) = replayed.see("u", WalPosition(50, tables_from=16400, timeline=1)).schema_changes
    renamed = replayed.see("w", WalPosition(60, tables_from=16400, timeline=1)).schema_changes

    assert (made.kind, made.moves) == (SchemaChangeKind.CREATE, ())
    assert [(str(each.table), each.kind) for each in renamed] == [
        ("public.w", SchemaChangeKind.RENAME),
        ("public.u", SchemaChangeKind.DROP),
    ]


@pytest.mark.parametrize("place", [WalPosition(150, tables_from=16400), WalPosition(50, tables_from=16401, timeline=1)])
def test_one_that_may_have_the_rows_of_a_stopped_one_stops(replayed: _Replayed, place: WalPosition) -> None:
    outcome = replayed.see("u", place)

    assert outcome.schema_changes == ()
    assert "has the rows of public.t" in outcome.stopped[0][1].error


def test_a_table_that_stops_as_it_is_renamed_does_not_go_on_later_from_the_name_that_it_had(
    replayed: _Replayed,
) -> None:
    outcome = replayed.see("u", WalPosition(150, tables_from=16400), {}, bits=16)
    stopped = {str(table): why for table, why in outcome.stopped}

    assert list(stopped) == ["public.u", "public.t"]
    assert "called public.u in the source now" in stopped["public.t"].error
    for name in ("u", "t"):
        later = replayed.see(name, WalPosition(160, tables_from=16400), stopped)
        assert later.schema_changes == ()


def test_a_renamed_table_keeps_the_numbers_of_when_its_rows_were_read(replayed: _Replayed) -> None:
    for name, altered_by in (("u", 700), ("w", 701)):
        replayed.see(name, WalPosition(150, tables_from=16400), {}, altered_by=altered_by)

    renamed = replayed.announced("w")

    assert renamed is not None
    assert renamed.publication_altered_by == 700


def test_a_table_whose_partitions_do_not_log_its_key_stops_though_it_looks_as_before(replayed: _Replayed) -> None:
    leaf = Partition(17, 7, is_made_as_one=True, name="public.t_1", identity=("r",))
    refused = partitions_refusal(TableId("public", "t"), ("id",), is_whole=False, partitions=[leaf])
    assert refused is not None

    outcome = replayed.see_refused(refused, {})

    ((table, why),) = outcome.stopped
    assert (str(table), outcome.schema_changes) == ("public.t", ())
    assert "public.t_1" in why.error
    assert "ALTER TABLE public.t_1 REPLICA IDENTITY FULL" in why.hint
    assert replayed.see_refused(refused, _STOPPED).stopped == ()
