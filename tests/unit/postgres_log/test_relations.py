"""Tables by relation messages and catalog, and what became of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.avro.schemas import table_schema as read_back
from penstock.core.avro.schemas import value_schema
from penstock.core.postgres.catalog import CatalogColumn, CatalogTable, written_table
from penstock.core.postgres.evolution import column_renames, is_read_as_told, refusal
from penstock.core.postgres.messages import Relation, RelationColumn
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.types import TypeInfo

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema

_INT8, _VARCHAR, _BPCHAR, _JSON, _JSONB, _INT4S, _TEXTS = 20, 1043, 1042, 114, 3802, 1007, 1009
_BOOLS, _DATE, _INSTANT = 16999, 1082, 1184
_INTERVAL, _TIMETZ, _NUMERICS, _INSTANTS, _BPCHARS, _VARCHARS, _GEOMETRY = 1186, 1266, 1231, 1185, 1014, 1015, 17001
_TYPES = {
    encoding.INT4: TypeInfo("int4"),
    _INT8: TypeInfo("int8"),
    encoding.TEXT: TypeInfo("text"),
    encoding.NUMERIC: TypeInfo("numeric"),
    _VARCHAR: TypeInfo("varchar"),
    _BPCHAR: TypeInfo("bpchar"),
    _JSON: TypeInfo("json"),
    _JSONB: TypeInfo("jsonb"),
    _INT4S: TypeInfo("_int4", element=encoding.INT4),
    _TEXTS: TypeInfo("_text", element=encoding.TEXT),
    _BOOLS: TypeInfo("truth", kind="d", below=16),
    _DATE: TypeInfo("date"),
    _INSTANT: TypeInfo("timestamptz"),
    _INTERVAL: TypeInfo("interval"),
    _TIMETZ: TypeInfo("timetz"),
    _NUMERICS: TypeInfo("_numeric", element=encoding.NUMERIC),
    _INSTANTS: TypeInfo("_timestamptz", element=_INSTANT),
    _BPCHARS: TypeInfo("_bpchar", element=_BPCHAR),
    _VARCHARS: TypeInfo("_varchar", element=_VARCHAR),
    _GEOMETRY: TypeInfo("geometry"),
}


def _table(*names: str, identity: str = "d") -> Relation:
    return encoding.relation([(n, encoding.INT4 if n == "id" else encoding.TEXT) for n in names], identity=identity)


def _catalog(*columns: tuple[int, str] | CatalogColumn) -> CatalogTable:
    listed = tuple(c if isinstance(c, CatalogColumn) else CatalogColumn(*c) for c in columns)
    return CatalogTable(16400, "public", "t", listed, ("id",))


def _known() -> TableSchema:
    return table_schema(_table("id", "a", "b"), _catalog((1, "id"), (2, "a"), (3, "b")), _TYPES)


def test_a_table_is_the_same_when_it_is_read_back_from_its_registered_schema() -> None:
    known = replace(
        _known(),
        comment="the table",
        published=17,
        partitions=2**50,
        publication_altered_by=2**32 - 1,
        partition_files=2**51,
        generated_to=9,
        modifiers=("2:-1", "3:4"),
    )

    assert read_back(value_schema(known)) == known


def test_a_table_that_was_published_otherwise_meanwhile_stops() -> None:
    def seen(published: int | None, known: TableSchema | None) -> TableSchema:
        catalog = replace(_catalog((1, "id"), (2, "a"), (3, "b")), published=published)
        return table_schema(_table("id", "a", "b"), catalog, _TYPES, known)

    first = seen(17, None)
    has_left, came_back = seen(None, first), seen(19, first)
    left_before = seen(None, None)

    assert has_left == first
    assert "came back" in str(refusal(first, came_back))
    assert "came back" in str(refusal(left_before, came_back))
    for before in (0, 17):
        assert refusal(replace(first, published=before), first) is None
    assert refusal(first, replace(first, published=0)) is None


def test_who_had_altered_the_publication_stays_until_the_rows_are_read_again() -> None:
    def seen(altered_by: int, known: TableSchema | None) -> int:
        catalog = replace(_catalog((1, "id")), publication_altered_by=altered_by)
        return table_schema(_table("id"), catalog, _TYPES, known).publication_altered_by

    begun = replace(table_schema(_table("id"), _catalog((1, "id")), _TYPES), publication_altered_by=700)

    assert (seen(700, None), seen(701, begun), seen(702, replace(begun, publication_altered_by=0))) == (700, 700, 702)


def test_a_column_with_another_name_keeps_its_number() -> None:
    after = table_schema(_table("id", "a", "c"), _catalog((1, "id"), (2, "a"), (3, "c")), _TYPES, _known())

    assert column_renames(_known(), after) == (("b", "c"),)
    assert refusal(_known(), after) is None


def test_columns_that_swapped_names_are_told_apart() -> None:
    after = table_schema(_table("id", "b", "a"), _catalog((1, "id"), (2, "b"), (3, "a")), _TYPES, _known())

    assert set(column_renames(_known(), after)) == {("a", "b"), ("b", "a")}


def test_a_column_that_was_dropped_and_added_again_in_other_letters_is_another_one() -> None:
    after = table_schema(_table("id", "a", "B"), _catalog((1, "id"), (2, "a"), (4, "B")), _TYPES, _known())
    spelled_anew = table_schema(_table("id", "a", "B"), _catalog((1, "id"), (2, "a"), (3, "B")), _TYPES, _known())

    assert "dropped, and added again" in str(refusal(_known(), after))
    assert column_renames(_known(), spelled_anew) == (("b", "B"),)
    assert refusal(_known(), spelled_anew) is None


def test_a_log_that_is_behind_the_catalog_shows_the_table_as_it_was() -> None:
    for newer in (
        _catalog((1, "id"), (2, "b"), (3, "a")),
        _catalog((1, "id"), (2, "x"), (3, "b"), (4, "more")),
        None,
    ):
        after = table_schema(_table("id", "a", "b"), newer, _TYPES, _known())

        assert column_renames(_known(), after) == ()
        assert refusal(_known(), after) is None


def test_a_column_that_was_added_and_is_called_otherwise_by_now_has_its_default() -> None:
    newer = _catalog((1, "id"), (2, "x"), CatalogColumn(4, "later", default="5"))

    after = table_schema(_table("id", "a", "b", "c"), newer, _TYPES, _known())

    assert (after.column("c").number, after.column("c").default) == (4, "5")
    assert refusal(_known(), after) is None


def test_a_column_that_was_added_and_is_gone_by_now_has_no_default() -> None:
    after = table_schema(_table("id", "a", "b", "c"), _catalog((1, "id"), (2, "a")), _TYPES, _known())

    assert after.column("c").default is None
    assert refusal(_known(), after) is None


def test_a_column_that_was_added_and_that_nobody_can_tell_stops_the_table() -> None:
    newer = _catalog((1, "id"), (2, "a"), (3, "b"), (5, "d"), (6, "e"))

    found = refusal(_known(), table_schema(_table("id", "a", "b", "c"), newer, _TYPES, _known()))

    assert found is not None
    assert found.column == "c"


def test_a_rename_shows_though_a_column_was_dropped_since() -> None:
    after = table_schema(_table("id", "x", "b"), _catalog((1, "id"), (2, "x")), _TYPES, _known())

    assert column_renames(_known(), after) == (("a", "x"),)


def test_a_column_that_was_dropped_and_added_under_its_name_stops_the_table() -> None:
    after = table_schema(_table("id", "a", "b"), _catalog((1, "id"), (2, "a"), (4, "b")), _TYPES, _known())

    found = refusal(_known(), after)

    assert found is not None
    assert "dropped" in found.reason


def test_an_added_column_has_the_default_of_existing_rows() -> None:
    added = CatalogColumn(4, "c", default="5")
    after = table_schema(_table("id", "a", "b", "c"), _catalog((1, "id"), (2, "a"), (3, "b"), added), _TYPES, _known())

    assert after.column("c").default == "5"
    assert refusal(_known(), after) is None


@pytest.mark.parametrize(
    ("oid", "printed", "default"),
    [
        (_INT4S, "{1,NULL}", "[1,null]"),
        (_TEXTS, '{x,"y z"}', '["x","y z"]'),
        (_BOOLS, "t", "1"),
        (_DATE, "2020-02-02", "2020-02-02"),
        (_INSTANT, "2020-02-02 01:02:03.5+00", "2020-02-02 01:02:03.5"),
    ],
)
def test_the_default_of_an_added_column_is_what_its_rows_would_have_brought(
    oid: int, printed: str, default: str
) -> None:
    columns = (*_table("id", "a", "b").columns, RelationColumn("c", oid, -1, in_identity=False))
    catalog = _catalog((1, "id"), (2, "a"), (3, "b"), CatalogColumn(4, "c", default=printed))

    after = table_schema(Relation(16400, "public", "t", "d", columns), catalog, _TYPES, _known())

    assert after.column("c").default == default
    assert refusal(_known(), after) is None


def test_an_added_column_whose_default_cannot_be_carried_stops_the_table() -> None:
    columns = (*_table("id", "a", "b").columns, RelationColumn("c", _DATE, -1, in_identity=False))
    catalog = _catalog((1, "id"), (2, "a"), (3, "b"), CatalogColumn(4, "c", default="infinity"))

    assert refusal(_known(), table_schema(Relation(16400, "public", "t", "d", columns), catalog, _TYPES, _known()))


def test_an_added_column_that_the_source_computed_stops_the_table() -> None:
    added = CatalogColumn(4, "c", is_computed=True)
    after = table_schema(_table("id", "a", "b", "c"), _catalog((1, "id"), (2, "a"), (3, "b"), added), _TYPES, _known())

    found = refusal(_known(), after)

    assert found is not None
    assert found.column == "c"


@pytest.mark.parametrize("number", [2, 3])
def test_a_column_that_was_generated_and_is_none_now_stops_the_table(number: int) -> None:
    """ALTER TABLE t ALTER total DROP EXPRESSION: it comes into the log, and existing rows have values."""
    plain = CatalogColumn(5 - number, "a")
    generated = replace(_catalog((1, "id"), plain), generated=(CatalogColumn(number, "total", is_computed=True),))
    known = read_back(value_schema(table_schema(_table("id", "a"), generated, _TYPES)))
    names = ("id", "total", "a") if number == 2 else ("id", "a", "total")
    dropped = _catalog((1, "id"), *sorted([(number, "total"), (plain.number, "a")]))

    found = refusal(known, table_schema(_table(*names), dropped, _TYPES, known))

    assert found is not None
    assert found.column == "total"


def test_a_column_that_is_added_behind_a_generated_one_has_its_default() -> None:
    generated = (CatalogColumn(3, "total", is_computed=True),)
    known = table_schema(_table("id", "a"), replace(_catalog((1, "id"), (2, "a")), generated=generated), _TYPES)
    added = replace(_catalog((1, "id"), (2, "a"), CatalogColumn(4, "c", default="5")), generated=generated)

    after = table_schema(_table("id", "a", "c"), added, _TYPES, known)

    assert (after.column("c").default, refusal(known, after)) == ("5", None)


def test_a_generated_column_of_a_publication_stops_the_table() -> None:
    known = table_schema(_table("id", "a"), _catalog((1, "id"), (2, "a")), _TYPES)
    generated = replace(_catalog((1, "id"), (2, "a")), generated=(CatalogColumn(3, "g", is_computed=True),))

    found = refusal(known, table_schema(_table("id", "a", "g"), generated, _TYPES, known))

    assert found is not None
    assert found.column == "g"


def _retyped(oid: int, modifier: int) -> Relation:
    columns = (
        RelationColumn("id", encoding.INT4, -1, in_identity=True),
        RelationColumn("a", oid, modifier, in_identity=False),
    )
    return Relation(16400, "public", "t", "d", columns)


@pytest.mark.parametrize(
    ("before", "after", "carried"),
    [
        ((encoding.INT4, -1), (_INT8, -1), True),
        ((_INT8, -1), (encoding.INT4, -1), False),
        ((_VARCHAR, 14), (_VARCHAR, 24), True),
        ((_VARCHAR, 24), (_VARCHAR, 14), False),
        ((_VARCHAR, 24), (encoding.TEXT, -1), True),
        ((encoding.INT4, -1), (encoding.TEXT, -1), False),
        ((_BPCHAR, 7), (_BPCHAR, 12), False),
        ((_BPCHAR, 7), (encoding.TEXT, -1), False),
        ((encoding.NUMERIC, -1), (encoding.NUMERIC, (90 << 16 | 2) + 4), False),
        ((_INT4S, -1), (_TEXTS, -1), False),
        ((_JSON, -1), (_JSONB, -1), False),
    ],
)
def test_another_type_is_carried_only_if_it_holds_every_value(
    before: tuple[int, int],
    after: tuple[int, int],
    carried: bool,  # noqa: FBT001 - a case
) -> None:
    known = table_schema(_retyped(*before), None, _TYPES)

    found = refusal(known, table_schema(_retyped(*after), None, _TYPES, known))

    assert (found is None) is carried


@pytest.mark.parametrize(
    ("oid", "before", "after", "carried"),
    [
        (_INTERVAL, -1, 0x7FFF0000, False),
        (_INTERVAL, 0x7FFF0000, -1, True),
        (_TIMETZ, 6, 0, False),
        (_NUMERICS, (10 << 16 | 4) + 4, (10 << 16 | 2) + 4, False),
        (_NUMERICS, (10 << 16 | 4) + 4, -1, True),
        (_INSTANTS, -1, 0, False),
        (_BPCHARS, 7, 13, False),
        (_VARCHARS, 14, 24, True),
        (_VARCHARS, 24, 14, False),
        (_VARCHARS, -1, 14, False),
        (_GEOMETRY, 1107460, 3857 << 8 | 4, False),
        (_GEOMETRY, 1107460, 1107460, True),
        (_INT4S, -1, -1, True),
    ],
)
def test_another_modifier_of_a_type_that_does_not_say_it_stops_the_table(
    oid: int,
    before: int,
    after: int,
    carried: bool,  # noqa: FBT001 - a case
) -> None:
    catalog = _catalog((1, "id"), (2, "a"))
    known = read_back(value_schema(table_schema(_retyped(oid, before), catalog, _TYPES)))

    now = table_schema(_retyped(oid, after), catalog, _TYPES, known)

    assert (now == known) == (before == after)
    assert (refusal(known, now) is None) is carried
    # An earlier release has not kept it.
    assert refusal(replace(known, modifiers=()), now) is None


def test_rows_are_read_though_a_comment_or_the_name_of_a_type_is_another_one() -> None:
    told = replace(_known(), modifiers=("3:8",))
    column = told.columns[2]

    def with_last(**changed: object) -> TableSchema:
        return replace(told, columns=(*told.columns[:2], replace(column, **changed)))  # type: ignore[arg-type]

    alike = [
        replace(told, comment="said", published=5, partition_files=9),
        with_last(comment="said"),
        with_last(declaration="address"),
    ]
    others = [
        with_last(name="c"),
        with_last(number=4),
        with_last(type=_known().columns[0].type),
        replace(told, key=("id", "a")),
        replace(told, columns=told.columns[:2]),
        replace(told, modifiers=("3:12",)),
    ]
    assert [each for each in alike if not is_read_as_told(told, each)] == []
    assert [each for each in others if is_read_as_told(told, each)] == []
    assert is_read_as_told(replace(told, modifiers=()), told)


def test_another_key_stops_the_table() -> None:
    other = encoding.relation([("id", encoding.INT4), ("a", encoding.TEXT), ("b", encoding.TEXT)], key=("a",))

    found = refusal(_known(), table_schema(other, None, _TYPES, _known()))

    assert found is not None
    assert "key" in found.reason


@pytest.mark.parametrize("key", [("a", "id"), ()])
def test_another_primary_key_of_a_table_that_is_logged_whole_stops_it(key: tuple[str, ...]) -> None:
    whole, catalog = _table("id", "a", "b", identity="f"), _catalog((1, "id"), (2, "a"), (3, "b"))
    known = table_schema(whole, catalog, _TYPES)

    found = refusal(known, table_schema(whole, replace(catalog, key=key), _TYPES, known))

    assert found is not None
    assert "key" in found.reason


def test_a_table_without_identity_has_the_primary_key_of_the_catalog_or_none() -> None:
    whole = _table("id", "a", "b", identity="f")

    assert table_schema(whole, _catalog((1, "id"), (2, "a"), (3, "b")), _TYPES).key == ("id",)
    without = table_schema(whole, None, _TYPES)
    assert without.key == ()
    assert not without.partial_rows


@pytest.mark.parametrize("written", [b"{}", b"not JSON", b'{"table": "caf\xe9"}'])
def test_a_table_that_was_written_down_in_another_form_is_left_to_its_next_row(written: bytes) -> None:
    # A database of encoding SQL_ASCII has bytes of any encoding.
    assert written_table(written) is None
