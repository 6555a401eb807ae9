"""Redshift as a target, beside what every kind of target does: COPY, its errors, layouts, and names."""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.redshift_case import loads_of, log_in, run, target, with_one_row
from tests.servers.sink_case import (
    FIRST,
    SCHEMAS,
    TABLE,
    TOPIC,
    Place,
    rows_in,
    schema,
    schema_change,
    write_batch,
)

from penstock.adapters.redshift.preflight import examine_database
from penstock.adapters.redshift.query import query
from penstock.core.errors import SinkError, TableStoppedError, UsageError
from penstock.core.file_formats import PARQUET, FileFormat
from penstock.core.tables import BytesType, IntegerType, PrintedType, TextType
from penstock.core.warehouse.dialects import REDSHIFT_SUPER
from penstock.core.warehouse.redshift_copy import CopyRights
from penstock.ports.queries import ReadLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.redshift.warehouse import RedshiftLoads
    from penstock.core.batches import Batch
    from penstock.dev.redshift import RedshiftServer
    from penstock.links.warehouse.sink import SqlSink


@pytest.fixture
def place(redshift_place: Place) -> Place:
    """A database of a Redshift, with files that COPY reads."""
    return redshift_place


@pytest.fixture
def sink(place: Place) -> SqlSink:
    """A target with one row."""
    return with_one_row(place)


def statements(sink: SqlSink) -> list[str]:
    """What the sink will have run, from now on."""
    seen: list[str] = []
    warehouse = sink._warehouse
    inner = warehouse.run

    def noting(statement: str, values: Sequence[str | int] = ()) -> None:
        seen.append(statement)
        inner(statement, values)

    warehouse.run = noting  # type: ignore[method-assign]
    return seen


def test_all_files_of_a_load_are_one_copy_by_a_manifest(place: Place, sink: SqlSink) -> None:
    seen = statements(sink)
    batches = [write_batch(place, FIRST, 1, start, [(f"k{start % 7}", start, "u")]) for start in range(1, 30)]

    assert sink.load(TABLE, batches, SCHEMAS).rows == 29

    copies = [statement for statement in seen if statement.startswith("COPY")]
    assert len(copies) == 1
    assert "MANIFEST FORMAT AS CSV NULL AS '\\\\N' GZIP" in copies[0]
    assert rows_in(sink, "SELECT COUNT(*) FROM shop.orders") == [(8,)]
    assert rows_in(sink, "SELECT qty FROM shop.orders WHERE id = 'k1'") == [(29,)]


def test_files_that_are_written_in_other_ways_are_copied_too(place: Place, sink: SqlSink) -> None:
    ways = [FileFormat(), FileFormat("csv", "zstd"), FileFormat("csv", "gzip")]
    for start, way in enumerate(ways, start=1):
        batch = write_batch(replace(place, format=way), FIRST, 1, start, [(f"k{start}", start, "c")])
        sink.load(TABLE, [batch], SCHEMAS)
    words = [("\\N", 1, "c"), ("\\N1", 2, "c")]
    sink.load(
        TABLE, [write_batch(place, FIRST, 1, 4, words), write_batch(place, FIRST, 1, 6, [("x", 1, "c")])], SCHEMAS
    )

    found = ["\\N", "\\N1", "a", "k1", "k2", "k3", "x"]
    assert sorted(str(key) for (key,) in rows_in(sink, "SELECT id FROM shop.orders")) == found


@pytest.mark.parametrize("null", [[("c", None)], []], ids=["nullable", "never null"])
def test_an_empty_binary_is_not_null(place: Place, null: list[tuple[str, None]]) -> None:
    binary = schema(body=BytesType(20, fixed=False))
    columns = (binary.columns[0], replace(binary.columns[1], nullable=bool(null)))
    wanted = replace(binary, columns=columns)
    sink = place.open()
    rows: list[tuple[object, ...]] = [("a", b"", "c"), ("b", b"\x00", "c"), *((*row, "c") for row in null)]

    sink.load(TABLE, [write_batch(place, wanted, 1, 0, rows)], {1: wanted})

    found = rows_in(sink, "SELECT id, TO_HEX(body) FROM shop.orders ORDER BY id")
    assert found == [("a", ""), ("b", "00"), *null]


JSON = schema(doc=PrintedType("json"))
MORE_JSON = schema(doc=PrintedType("json"), qty=IntegerType(32, unsigned=False))


def with_super(place: Place) -> Place:
    return replace(place, target=replace(target(place), dialect=REDSHIFT_SUPER), opened=[])


def test_json_is_super_where_that_is_asked_for(place: Place) -> None:
    documents = ['{"a": [1, {"b": "x y"}], "n": 1.50}', "null", '"text"', "[]", None]
    rows = [(f"k{number}", document, "c") for number, document in enumerate(documents)]
    with closing(with_super(place).open()) as sink:
        sink.load(TABLE, [write_batch(place, JSON, 1, 0, rows)], {1: JSON})
        marked = [write_batch(replace(place, format=PARQUET), JSON, 1, 5, [("k5", '{"c": 2}', "c")])]
        sink.load(TABLE, marked, {1: JSON})
        grown = [schema_change(2, 6), write_batch(place, MORE_JSON, 2, 6, [("k0", '{"a": [7]}', 3, "u")])]
        sink.load(TABLE, grown, {1: JSON, 2: MORE_JSON})

        assert sink._warehouse.columns(TABLE)["doc"] == "SUPER"
        found = rows_in(sink, "SELECT id, JSON_SERIALIZE(doc), JSON_TYPEOF(doc) FROM shop.orders ORDER BY id")
    assert found == [
        ("k0", '{"a":[7]}', "object"), ("k1", "null", "null"), ("k2", '"text"', "string"), ("k3", "[]", "array"),
        ("k4", None, None), ("k5", '{"c":2}', "object"),
    ]  # fmt: skip


def test_a_document_that_is_too_long_for_super_is_named(place: Place) -> None:
    long = '["' + "x" * 4_000_000 + '"]'
    with (
        closing(with_super(place).open()) as sink,
        pytest.raises(TableStoppedError, match=r"(?s)orders\.doc .*'k'"),
    ):
        sink.load(TABLE, [write_batch(place, JSON, 1, 0, [("k", long, "c")])], {1: JSON})


def test_a_table_keeps_its_json_when_the_type_in_the_config_changes(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [write_batch(place, JSON, 1, 0, [("a", "[1]", "c")])], {1: JSON})

    with closing(with_super(place).open()) as other, pytest.raises(TableStoppedError, match=r"VARCHAR.*SUPER"):
        other.load(TABLE, [write_batch(place, JSON, 1, 1, [("b", "[2]", "c")])], {1: JSON})

    sink.load(TABLE, [write_batch(place, JSON, 1, 1, [("b", "[2]", "c")])], {1: JSON})
    assert rows_in(sink) == [("a", "[1]"), ("b", "[2]")]


# What harms a load of ("b", 2), and what is said of it.
HARMS = {
    "gone": "orders-1-1: .*no such file|not found|does not exist",
    "not gzip": "orders-1-1",
    "cut short": "orders-1-1",
    "too few rows": "orders-1-1.* 1 rows, and its batch message says 2",
    "another schema": "orders-1-1",
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_copy_that_fails_is_never_taken_for_a_success(place: Place, sink: SqlSink, harm: str) -> None:
    good = write_batch(place, FIRST, 1, 1, [("b", 2, "c")])
    content = place.objects.get(good.path)

    def harmed() -> Batch:
        match harm:
            case "gone":
                place.objects.delete([good.path])
            case "not gzip":
                place.objects.put(good.path, b"b,2,c,1" + bytes(len(content) - 7))
            case "cut short":
                place.objects.put(good.path, content[:-9])
            case "too few rows":
                return replace(good, rows=2, end_offset=3)
            case _:
                other = write_batch(place, schema(), 1, 1, [("b", "c")])
                return replace(good, size_bytes=other.size_bytes)
        return good

    bad = harmed()
    with pytest.raises(TableStoppedError, match=f"(?s){HARMS[harm]}"):
        sink.load(TABLE, [bad, write_batch(place, FIRST, 1, bad.end_offset, [("c", 3, "c")])], SCHEMAS)
    assert (rows_in(sink), sink.positions(TABLE)) == ([("a", 1)], {(TOPIC, 0): 1})

    place.objects.put(good.path, content)
    sink.load(TABLE, [good], SCHEMAS)
    assert rows_in(sink) == [("a", 1), ("b", 2)]


def test_a_value_that_does_not_fit_is_named_with_its_key(place: Place) -> None:
    long = schema(note=TextType(90_000, "ascii"))
    sink = place.open()
    sink.load(TABLE, [schema_change(1)], {1: long})
    bad = write_batch(place, long, 1, 0, [("fine", "ok", "c"), ("long-key", "long" * 20_000, "c")])

    with pytest.raises(TableStoppedError, match=r"(?s)orders\.note .*long-key"):
        sink.load(TABLE, [bad], {1: long})

    assert rows_in(sink) == []


def test_a_row_that_only_redshift_refuses_is_told_with_file_line_and_value(place: Place, sink: SqlSink) -> None:
    batch = write_batch(place, FIRST, 1, 1, [("b", 2, "c"), ("c", 3, "c")])
    # Our own reader takes the number, which is too large for the column that COPY fills.
    wide = schema(qty=IntegerType(64, unsigned=False))
    other = write_batch(place, replace(wide, table=TABLE), 1, 1, [("b", 2, "c"), ("c", 2**40, "c")])
    told = replace(batch, size_bytes=other.size_bytes)

    with pytest.raises(TableStoppedError) as stopped:
        sink.load(TABLE, [told], SCHEMAS)

    assert "1099511627776" in stopped.value.message
    assert "line 2" in stopped.value.message or "row 2" in stopped.value.message
    assert rows_in(sink) == [("a", 1)]


def test_rights_that_do_not_do_are_told_and_no_table_is_blamed(place: Place, sink: SqlSink) -> None:
    stranger = replace(target(place), rights=CopyRights("arn:aws:iam::1:role/stranger"))
    more = [write_batch(place, FIRST, 1, 1, [("b", 2, "c")])]
    with (
        closing(replace(place, target=stranger, opened=[]).open()) as other,
        pytest.raises(SinkError, match=r"may not read the files to load: .*not authorized to assume"),
    ):
        other.load(TABLE, more, SCHEMAS)
    with pytest.raises(SinkError, match="may not read"):
        examine_database(stranger.cluster, loads_of(stranger))

    assert rows_in(sink) == [("a", 1)]


def test_tables_that_differ_in_nothing_but_case_are_one_table_there(place: Place, sink: SqlSink) -> None:
    loud = replace(FIRST, table=replace(TABLE, name="ORDERS"))

    with pytest.raises(TableStoppedError, match=r"ORDERS .* did not make \(upper and lower case do not count\)"):
        sink.load(loud.table, [write_batch(place, loud, 1, 0, [("b", 2, "c")])], {1: loud})
    mixed = replace(schema(Qty=IntegerType(32, unsigned=False)), table=replace(TABLE, name="MiXed"))
    sink.load(mixed.table, [write_batch(place, mixed, 1, start, [("b", 2, "u")]) for start in (0, 1)], {1: mixed})

    assert rows_in(sink) == [("a", 1)]
    assert rows_in(sink, "SELECT * FROM shop.mixed") == [("b", 2)]


def test_names_with_capitals_outside_of_ascii_are_found_again(place: Place) -> None:
    table = replace(TABLE, schema="Größe", name="ÜberSicht")
    named = replace(schema(Änderung=TextType(5, "ascii")), table=table)
    longer = replace(schema(Änderung=TextType(9, "ascii")), table=table)
    sink = place.open()

    sink.load(table, [write_batch(place, named, 1, 0, [("a", "x", "c")])], {1: named})
    more = [schema_change(2, 1), write_batch(place, longer, 2, 1, [("b", "longer", "c")])]
    sink.load(table, more, {1: named, 2: longer})

    assert rows_in(sink, 'SELECT * FROM "größe"."Übersicht" ORDER BY id') == [("a", "x"), ("b", "longer")]
    assert sink._warehouse.attributes(table).columns == ("id", "Änderung")


def test_a_name_that_is_too_long_stops_its_table(place: Place, sink: SqlSink) -> None:
    long = replace(FIRST, table=replace(TABLE, name="é" * 64))

    with pytest.raises(TableStoppedError, match="longer than the 127 bytes that names have in redshift"):
        sink.load(long.table, [write_batch(place, long, 1, 0, [("b", 2, "c")])], {1: long})


def test_a_table_that_belongs_to_another_stops_until_it_is_ours_again(
    place: Place, sink: SqlSink, redshift: RedshiftServer
) -> None:
    database = target(place).cluster.database
    more = [schema_change(2, 1), write_batch(place, SCHEMAS[2], 2, 1, [("b", 2**40, "c")])]
    with closing(log_in(redshift, dbname=database)) as connection:
        run(connection, f"CREATE USER limited_{database} PASSWORD 'Penstock1'")
        run(connection, f"GRANT ALL ON SCHEMA shop, {place.state} TO limited_{database}")
        run(connection, f"GRANT ALL ON ALL TABLES IN SCHEMA {place.state} TO limited_{database}")
        run(connection, f"GRANT SELECT ON shop.orders TO limited_{database}")
        limited = replace(target(place).cluster, user=f"limited_{database}", password="Penstock1")
        try:
            with closing(replace(place, target=replace(target(place), cluster=limited), opened=[]).open()) as other:
                with pytest.raises(TableStoppedError, match=r"permi|owner"):
                    other.load(TABLE, more, SCHEMAS)
                run(connection, f"ALTER TABLE shop.orders OWNER TO limited_{database}")

                other.load(TABLE, more, SCHEMAS)
        finally:
            run(connection, f"ALTER TABLE shop.orders OWNER TO {redshift.user}")
            run(connection, f"REASSIGN OWNED BY limited_{database} TO {redshift.user}")
            run(connection, f"DROP OWNED BY limited_{database}", f"DROP USER limited_{database}")

    assert rows_in(sink) == [("a", 1), ("b", 2**40)]


def test_a_query_is_answered_cut_and_never_writes(place: Place, sink: SqlSink) -> None:
    cluster, limits = target(place).cluster, ReadLimits(rows_max=2)
    sink.load(TABLE, [write_batch(place, FIRST, 1, 1, [("b", 2, "c"), ("c", None, "c")])], SCHEMAS)

    found = query(cluster, "SELECT id, qty FROM shop.orders ORDER BY id", limits)

    assert (found.rows.to_pydict(), found.truncated) == ({"id": ["a", "b"], "qty": [1, 2]}, True)
    for wrong in ("DELETE FROM shop.orders", "SELECT nothing FROM shop.orders", "", "SELECT 1; SELECT 2"):
        with pytest.raises(UsageError):
            query(cluster, wrong, limits)


def await_told(wanted: str, place: Place, statement: str, loads: RedshiftLoads) -> None:
    """Run `statement`, until `wanted` matches what is told of the target.

    PostgreSQL, which the stand-in asks, counts changed rows with a delay. It also analyzes tables on its own, once a
    minute, and counts from 0 then.
    """
    deadline = time.monotonic() + 30
    while True:
        place.do(statement)
        told = examine_database(target(place).cluster, loads)
        if re.search(wanted, told):
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.2)


def test_what_lets_us_in_is_examined_with_a_copy(place: Place) -> None:
    loads = loads_of(target(place))

    assert (
        examine_database(target(place).cluster, loads) == "takes the login, and creates schemas; COPY reads our files"
    )
    assert place.objects.list("") == []
    sink = place.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [(f"k{n}", n, "c") for n in range(200)])], SCHEMAS)
    await_told("reads our files$", place, "ANALYZE shop.orders", loads)
    more = write_batch(place, FIRST, 1, 200, [(f"k{n}", n, "c") for n in range(200, 900)])
    sink.load(TABLE, [more], SCHEMAS)
    stale = r"; statistics are stale \(ANALYZE\): shop\.orders \(\d+ % off\)$"
    await_told(stale, place, "UPDATE shop.orders SET qty = qty", loads)
    with pytest.raises(SinkError, match="refused the login"):
        examine_database(replace(target(place).cluster, password="wrong"), loads)
    with pytest.raises(SinkError, match="refused the login"):
        examine_database(replace(target(place).cluster, database="nowhere"), loads)
