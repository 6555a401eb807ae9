"""Tables of Redshift that get, lose or lengthen columns, with how they are laid out and who reads them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.servers.cut_warehouse import CutError
from tests.servers.redshift_case import target
from tests.servers.sink_case import FIRST, INT, SCHEMAS, TABLE, Place, rows_in, schema, schema_change, write_batch

from penstock.adapters.redshift.warehouse import RedshiftWarehouse
from penstock.core.errors import TableStoppedError
from penstock.core.patterns import TablePatterns
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import IntegerType, TextType
from penstock.core.warehouse.attributes import Spread
from penstock.core.warehouse.table_layout import TableLayouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableSchema
    from penstock.ports.warehouse import Value

NOTE = schema(note=TextType(5, "ascii"))
LONGER = schema(note=TextType(9, "ascii"))


@pytest.fixture
def place(redshift_place: Place) -> Place:
    """A database of a Redshift, with files that COPY reads."""
    return redshift_place


def test_layouts_are_given_and_kept_when_a_table_is_made_anew(place: Place) -> None:
    spread = Spread("KEY", "qty", "COMPOUND", ("qty", "id"), {"id": "zstd"})
    layouts = TableLayouts([(TablePatterns(("shop.*",)), spread)])
    laid_out = replace(place, target=replace(target(place), layouts=layouts))
    with closing(laid_out.open()) as sink:
        sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], SCHEMAS)
        first = sink._warehouse.attributes(TABLE)
        place.do("COMMENT ON TABLE shop.orders IS 'ours'", "GRANT SELECT ON shop.orders TO PUBLIC")
        sink.load(TABLE, [schema_change(2, 1), write_batch(place, SCHEMAS[2], 2, 1, [("b", 2**40, "c")])], SCHEMAS)
        second = sink._warehouse.attributes(TABLE)
        encoded = rows_in(
            sink, "SELECT encoding FROM svv_redshift_columns WHERE column_name = 'id' AND schema_name = 'shop'"
        )

    assert first.spread == second.spread == replace(spread, encodings={"id": "zstd", "qty": "none"})
    assert (second.comment, [grant.grantee for grant in second.grants]) == ("ours", ["PUBLIC"])
    assert sink._warehouse.dialect.name == "redshift"
    assert encoded == [("zstd",)]


def test_late_binding_views_are_named_where_a_change_breaks_them(place: Place) -> None:
    both = schema(note=TextType(5, "ascii"), qty=IntegerType(32, unsigned=False))
    schemas = {1: both, 2: schema(qty=IntegerType(32, unsigned=False)), 3: FIRST, 4: SCHEMAS[2]}
    sink = place.open()
    sink.load(TABLE, [write_batch(place, both, 1, 0, [("a", "x", 1, "c")])], schemas)
    late = "WITH NO SCHEMA BINDING"
    place.do(
        f"CREATE VIEW public.notes AS SELECT id, note FROM shop.orders {late}",
        f"CREATE VIEW public.all_of_it AS SELECT * FROM shop.orders {late}",
        f"CREATE VIEW public.others AS SELECT note FROM shop.notes {late}",
    )
    gone = [schema_change(2, 1), write_batch(place, schemas[2], 2, 1, [("b", 2, "c")])]

    with pytest.raises(TableStoppedError, match=r"it: view public\.notes\n"):
        sink.load(TABLE, gone, schemas)
    place.do("DROP VIEW public.notes")
    sink.load(TABLE, gone, schemas)
    sink.load(TABLE, [schema_change(4, 2), write_batch(place, SCHEMAS[2], 4, 2, [("c", 2**40, "c")])], schemas)

    assert place.ask("SELECT * FROM public.all_of_it ORDER BY id") == [("a", 1), ("b", 2), ("c", 2**40)]


def test_a_longer_text_is_made_room_for_ahead_of_the_transaction(place: Place) -> None:
    schemas = {1: NOTE, 2: LONGER}
    sink = place.open()
    sink.load(TABLE, [write_batch(place, NOTE, 1, 0, [("a", "short", "c")])], schemas)

    sink.load(TABLE, [schema_change(2, 1), write_batch(place, LONGER, 2, 1, [("b", "longer", "c")])], schemas)

    assert sink._warehouse.columns(TABLE)["note"] == "VARCHAR(9)"
    assert rows_in(sink) == [("a", "short"), ("b", "longer")]


def test_a_text_gets_longer_and_another_name_at_once(place: Place) -> None:
    moved, longer = replace(TABLE, name="moved"), schema(remark=TextType(9, "ascii"))
    schemas = {1: NOTE, 2: longer, 3: replace(schema(remark=TextType(20, "ascii")), table=moved)}
    sink = place.open()
    sink.load(TABLE, [write_batch(place, NOTE, 1, 0, [("a", "short", "c")])], schemas)

    changed = replace(schema_change(2, 1), column_renames=(("note", "remark"),))
    sink.load(TABLE, [changed, write_batch(place, longer, 2, 1, [("b", "longer", "c")])], schemas)
    assert rows_in(sink) == [("a", "short"), ("b", "longer")]
    sink.rename([Move(str(TABLE), str(moved), 3)], (9, 0, 0), schemas)

    assert sink._warehouse.columns(moved)["remark"] == "VARCHAR(20)"
    assert rows_in(sink, "SELECT * FROM shop.moved ORDER BY id") == [("a", "short"), ("b", "longer")]


@pytest.mark.parametrize("cut", ["COPY", "COMMIT"])
def test_a_load_that_fails_behind_the_room_for_a_longer_text_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    schemas, run = {1: NOTE, 2: LONGER}, RedshiftWarehouse.run
    place.open().load(TABLE, [write_batch(place, NOTE, 1, 0, [("a", "short", "c")])], schemas)
    more = [schema_change(2, 1), write_batch(place, LONGER, 2, 1, [("b", "longer", "c")])]

    def fail(self: RedshiftWarehouse, statement: str, values: Sequence[Value] = ()) -> None:
        if statement.startswith(cut):
            raise CutError(statement, "run again")
        run(self, statement, values)

    sink = place.open()
    with monkeypatch.context() as patch:
        patch.setattr(RedshiftWarehouse, "run", fail)
        with pytest.raises(CutError):
            sink.load(TABLE, more, schemas)
    left = sink._warehouse.columns(TABLE)
    sink = place.open()
    sink.load(TABLE, more, schemas)

    assert left["note"] == "VARCHAR(9)"
    assert rows_in(sink) == [("a", "short"), ("b", "longer")]


LAID_OUT = schema(note=TextType(5, "ascii"), size=INT, qty=INT)


@pytest.mark.parametrize(
    "spread", [Spread("KEY", "qty"), Spread("EVEN", "", "COMPOUND", ("id", "qty"))], ids=["distkey", "sortkey"]
)
def test_a_column_that_is_a_key_of_the_table_goes_or_gives_its_name_away(place: Place, spread: Spread) -> None:
    schemas = {
        1: LAID_OUT,
        2: schema(note=TextType(5, "ascii"), size=INT),
        3: schema(note=TextType(5, "ascii"), qty=INT),
    }
    layouts = TableLayouts([(TablePatterns(("shop.*",)), spread)])
    laid_out, renamed = replace(place, target=replace(target(place), layouts=layouts)), replace(TABLE, name="renamed")
    of_other = {number: replace(each, table=renamed) for number, each in schemas.items()}
    with closing(laid_out.open()) as sink:
        first = write_batch(place, LAID_OUT, 1, 0, [("a", "x", 1, 2, "c")])
        sink.load(TABLE, [first], schemas)
        sink.load(renamed, [replace(first, table=renamed)], of_other)
        place.do("GRANT SELECT ON shop.orders TO PUBLIC")

        sink.load(TABLE, [schema_change(2, 1), write_batch(place, schemas[2], 2, 1, [("b", "y", 3, "c")])], schemas)
        taken = replace(schema_change(3, 1), table=renamed, column_renames=(("size", "qty"),))
        sink.load(renamed, [taken], of_other)

        assert rows_in(sink) == [("a", "x", 1), ("b", "y", 3)]
        assert rows_in(sink, "SELECT id, note, qty FROM shop.renamed") == [("a", "x", 1)]
        found = sink._warehouse.attributes(TABLE)
        assert [grant.grantee for grant in found.grants] == ["PUBLIC"]


@pytest.mark.parametrize("encoding", ["bytedict", "runlength", "text255", "text32k", "lzo"])
def test_a_text_gets_longer_however_it_is_encoded(place: Place, encoding: str) -> None:
    schemas, layouts = {1: NOTE, 2: LONGER}, [(TablePatterns(("shop.*",)), Spread(encodings={"note": encoding}))]
    laid_out = replace(place, target=replace(target(place), layouts=TableLayouts(layouts)))
    with closing(laid_out.open()) as sink:
        sink.load(TABLE, [write_batch(place, NOTE, 1, 0, [("a", "short", "c")])], schemas)

        sink.load(TABLE, [schema_change(2, 1), write_batch(place, LONGER, 2, 1, [("b", "longer", "c")])], schemas)

        assert rows_in(sink) == [("a", "short"), ("b", "longer")]
        assert sink._warehouse.columns(TABLE)["note"] == "VARCHAR(9)"


def test_a_text_gets_longer_in_the_load_that_brings_its_column(place: Place) -> None:
    number, none = schema(note=INT), schema()
    schemas = {1: NOTE, 2: LONGER, 3: number, 4: NOTE, 5: LONGER, 6: none, 7: NOTE, 8: LONGER}
    at = partial(write_batch, place)
    anew = [replace(schema_change(*change), kind=SchemaChangeKind.CREATE) for change in ((3, 2), (4, 3))]
    sink = place.open()

    made = [at(NOTE, 1, 0, [("a", "short", "c")]), schema_change(2, 1), at(LONGER, 2, 1, [("b", "longer", "c")])]
    sink.load(TABLE, made, schemas)
    assert rows_in(sink) == [("a", "short"), ("b", "longer")]
    sink.load(TABLE, [anew[0], at(number, 3, 2, [("a", 1, "c")])], schemas)
    made_anew = [anew[1], at(NOTE, 4, 3, [("c", "short", "c")]), schema_change(5, 4)]
    sink.load(TABLE, [*made_anew, at(LONGER, 5, 4, [("d", "longer", "c")])], schemas)
    assert rows_in(sink) == [("c", "short"), ("d", "longer")]
    added = [schema_change(6, 5), schema_change(7, 5), at(NOTE, 7, 5, [("e", "short", "c")]), schema_change(8, 6)]
    sink.load(TABLE, [*added, at(LONGER, 8, 6, [("f", "longer", "c")])], schemas)

    assert rows_in(sink) == [("c", None), ("d", None), ("e", "short"), ("f", "longer")]
    assert sink._warehouse.columns(TABLE)["note"] == "VARCHAR(9)"


def test_a_text_gets_longer_that_older_rows_have_taken_as_a_default(place: Place) -> None:
    filled = {size: with_default(schema(note=TextType(size, "ascii")), "x") for size in (5, 9, 20)}
    schemas = {1: schema(), 2: filled[5], 3: filled[9], 4: filled[20]}
    sink = place.open()
    sink.load(TABLE, [write_batch(place, schemas[1], 1, 0, [("a", "c")])], schemas)
    sink.load(TABLE, [schema_change(2, 1), write_batch(place, schemas[2], 2, 1, [("b", "short", "c")])], schemas)

    sink.load(TABLE, [schema_change(3, 2), write_batch(place, schemas[3], 3, 2, [("c", "longer", "c")])], schemas)
    sink.load(TABLE, [schema_change(4, 3)], schemas)

    assert rows_in(sink) == [("a", "x"), ("b", "short"), ("c", "longer")]
    assert sink._warehouse.columns(TABLE)["note"] == "VARCHAR(20)"


def with_default(table: TableSchema, default: str) -> TableSchema:
    columns = [replace(c, nullable=False, default=default) if c.name == "note" else c for c in table.columns]
    return replace(table, columns=tuple(columns))
