"""A link's rules for columns: what the target gets, and that it never gets more, whatever becomes of the table."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import TABLE, TOPIC, rows_in, schema_change

from penstock.core.errors import TableStoppedError, TableWaitsError
from penstock.core.files import LACKS, OFFSET, OP, file_schema, object_key, render_file
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.core.transforms.column_rules import Action, ColumnRule, ColumnRules, Drop
from penstock.core.transforms.hashes import HashColumns, Salt
from penstock.core.transforms.masks import KeepLast
from penstock.links.warehouse.load_rules import LoadRules

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch
    from penstock.links.warehouse.sink import SqlSink

SALT = Salt("S", b"a salt of some length")
OTHER_SALT = Salt("S", b"another salt of some length")
INT = IntegerType(32, unsigned=False)
ID = Column("id", INT, nullable=False)
TEXT = TextType(30, "utf8mb4")
EMAIL = Column("email", TEXT, nullable=True)
PHONE = Column("phone", TEXT, nullable=True)
CODE = Column("code", INT, nullable=True)
PEOPLE = TableSchema(TABLE, (ID, EMAIL, PHONE, CODE), ("id",))
Row = dict[str, object]


def rules(**actions: Action) -> LoadRules:
    """Rules by column; `__` stands for a dot, `_any_` for a star."""
    named = {name.replace("__", ".").replace("_any_", "*"): action for name, action in actions.items()}
    return LoadRules(columns=ColumnRules(tuple(ColumnRule(ColumnPatterns((n,)), a) for n, a in named.items())))


RULES = rules(shop__orders__code=Drop(), shop__orders__email=SALT, shop__orders__phone=KeepLast(2))


def hashed(value: object, type_: TextType | IntegerType = TEXT) -> object:
    schema = TableSchema(TABLE, (Column("x", type_, nullable=True),), ())
    layout = pa.schema([pa.field("x", pa.int32() if isinstance(type_, IntegerType) else pa.string())])
    return HashColumns(("x",), SALT).apply(schema, pa.table({"x": [value]}, layout))[1].column("x")[0].as_py()


def batch(place: Place, start: int, schema_id: int, schema: TableSchema, rows: list[Row]) -> Batch:
    """A file of rows (columns, and "op"), and its batch; the log's order follows schema ids, then offsets."""
    layout = file_schema(schema)
    laid_out = [
        {**row, OP: row.get("op", "c"), OFFSET: start + n, LACKS: row.get("lacks", "")} for n, row in enumerate(rows)
    ]
    content = render_file(schema, pa.Table.from_pylist(laid_out, layout))
    key = object_key("shop", "shopdb", TOPIC, 0, (start, start + len(rows)), schema_id)
    place.objects.put(key, content)
    told = replace(schema_change(schema_id, start), table=schema.table)
    return replace(told, end_offset=start + len(rows), rows=len(rows), path=key, size_bytes=len(content))


def renamed(
    place: Place, start: int, schema_id: int, schema: TableSchema, rows: list[Row], *names: tuple[str, str]
) -> Batch:
    return replace(batch(place, start, schema_id, schema, rows), column_renames=names)


ANN: Row = {"id": 1, "email": "ann@example.com", "phone": "0123456", "code": 7}


def test_columns_are_dropped_hashed_and_masked_and_null_stays_null(place: Place) -> None:
    sink = place.open(rules=RULES)

    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN, {"id": 2}])], {1: PEOPLE})

    assert list(place.columns()) == ["id", "email", "phone"]
    assert rows_in(sink) == [(1, hashed("ann@example.com"), "*****56"), (2, None, None)]


def test_a_hashed_key_keeps_its_rows_apart_and_finds_them_again(place: Place) -> None:
    sink = place.open(rules=rules(shop__orders__id=SALT))
    first = batch(place, 0, 1, PEOPLE, [{"id": 1, "code": 1}, {"id": 2, "code": 2}, {"id": 3, "code": 3}])
    sink.load(TABLE, [first], {1: PEOPLE})

    sink.load(TABLE, [batch(place, 3, 1, PEOPLE, [{"id": 1, "code": 9, "op": "u"}, {"id": 2, "op": "d"}])], {1: PEOPLE})

    assert set(rows_in(sink, "SELECT id, code FROM shop.orders")) == {(hashed(1, INT), 9), (hashed(3, INT), 3)}


def test_a_key_is_neither_dropped_nor_masked_and_nothing_is_loaded(place: Place) -> None:
    for action in (Drop(), KeepLast(1)):
        sink = place.open(rules=rules(id=action))
        with pytest.raises(TableStoppedError, match=r"orders\.id stopped .* no longer identifies a row"):
            sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
        sink.close()

    assert place.tables() == []


def test_a_table_without_a_key_is_treated_row_by_row(place: Place) -> None:
    log = replace(PEOPLE, key=())
    row: Row = {**ANN, "__penstock_file": "f", "__penstock_pos": 1, "__penstock_row": 0, "__penstock_ts_ms": 0}
    sink = place.open(rules=rules(id=Drop(), email=SALT))

    sink.load(TABLE, [batch(place, 0, 1, log, [row])], {1: log})

    assert rows_in(sink, "SELECT email, code, _op FROM shop.orders") == [(hashed("ann@example.com"), 7, "c")]


@on_every_target
def test_columns_that_come_and_go_are_treated_and_older_rows_take_the_treated_default(place: Place) -> None:
    mail = Column("mail", EMAIL.type, nullable=False, default="none")
    after = replace(PEOPLE, columns=(ID, EMAIL, mail))
    more = replace(PEOPLE, columns=(ID, EMAIL, mail, Column("pin", INT, nullable=False)))
    sink = place.open(rules=rules(email=SALT, mail=SALT, pin=SALT))
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})

    gone = replace(PEOPLE, columns=(ID, EMAIL))
    sink.load(
        TABLE,
        [batch(place, 1, 2, gone, [{"id": 2}]), batch(place, 2, 3, after, [{"id": 3, "mail": "x"}])],
        {2: gone, 3: after},
    )
    sink.load(TABLE, [batch(place, 3, 4, more, [{"id": 4, "mail": "y", "pin": 5}])], {4: more})

    none, zero = hashed("none"), hashed(0, INT)
    assert rows_in(sink, "SELECT id, mail, pin FROM shop.orders ORDER BY id") == [
        (1, none, zero), (2, none, zero), (3, hashed("x"), zero), (4, hashed("y"), hashed(5, INT)),
    ]  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
def test_a_column_that_gets_another_name_is_treated_as_before(place: Place, restarted: bool) -> None:  # noqa: FBT001 - a test's case
    names = (("email", "contact"), ("phone", "mobile"), ("code", "secret"))
    after = PEOPLE.with_columns_renamed(names)
    again = after.with_columns_renamed([("contact", "reach_me")])
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
    row: Row = {"id": 2, "contact": "bob@example.com", "mobile": "77", "secret": 1}

    sink.load(TABLE, [renamed(place, 1, 2, after, [row], *names)], {2: after})
    if restarted:
        sink.close()
        sink = place.open(rules=RULES)
    last: Row = {"id": 3, "reach_me": "bob@example.com", "mobile": "123", "secret": 2}
    sink.load(TABLE, [renamed(place, 2, 3, again, [last], ("contact", "reach_me"))], {3: again})

    assert list(place.columns()) == ["id", "reach_me", "mobile"]
    ann, bob = hashed("ann@example.com"), hashed("bob@example.com")
    assert rows_in(sink) == [(1, ann, "*****56"), (2, bob, "**"), (3, bob, "*23")]
    hashing = f"hash {SALT.fingerprint}"
    assert sink.treated(TABLE) == {"id": "", "reach_me": hashing, "mobile": "mask", "secret": "drop"}
    assert sink.treated(TableId("shop", "others")) is None


def test_a_table_that_gets_another_name_is_treated_as_before(place: Place) -> None:
    clients = replace(PEOPLE, table=TableId("shop", "clients"))
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})

    sink.rename([Move("shop.orders", "shop.clients", 2)], (2, 0, 0), {2: clients})
    sink.load(
        clients.table, [batch(place, 1, 2, clients, [{"id": 2, "email": "bob@example.com", "code": 5}])], {2: clients}
    )

    assert list(place.columns(clients.table)) == ["id", "email", "phone"]
    assert rows_in(sink, "SELECT id, email FROM shop.clients ORDER BY id") == [
        (1, hashed("ann@example.com")),
        (2, hashed("bob@example.com")),
    ]


def test_the_shadow_of_a_table_that_is_copied_to_be_altered_is_treated_like_the_table(place: Place) -> None:
    shadow = replace(PEOPLE, table=TableId("shop", "_orders_gho"))
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
    sink.load(shadow.table, [batch(place, 0, 2, shadow, [ANN])], {2: shadow})
    assert rows_in(sink, "SELECT * FROM shop._orders_gho") == [(1, hashed("ann@example.com"), "*****56")]

    moves = [Move("shop.orders", "shop._orders_del", 3), Move("shop._orders_gho", "shop.orders", 1)]
    deleted = replace(PEOPLE, table=TableId("shop", "_orders_del"))
    sink.rename(moves, (3, 0, 0), {1: PEOPLE, 3: deleted})

    assert rows_in(sink) == [(1, hashed("ann@example.com"), "*****56")]


@on_every_target
def test_a_column_that_got_another_name_is_hidden_in_shadows_and_in_the_table_that_they_become(place: Place) -> None:
    by_name, names = rules(email=SALT), (("email", "contact"),)
    after = PEOPLE.with_columns_renamed(names)
    shadow, deleted = (replace(after, table=TableId("shop", name)) for name in ("_orders_gho", "_orders_del"))
    bob: Row = {"id": 2, "contact": "bob@example.com"}
    sink = place.open(rules=by_name)
    sink.load(
        TABLE, [batch(place, 0, 1, PEOPLE, [ANN]), renamed(place, 1, 2, after, [], *names)], {1: PEOPLE, 2: after}
    )

    sink.load(shadow.table, [batch(place, 0, 3, shadow, [bob])], {3: shadow})
    assert rows_in(sink, "SELECT contact FROM shop._orders_gho") == [(hashed("bob@example.com"),)]
    moves = [Move("shop.orders", "shop._orders_del", 5), Move("shop._orders_gho", "shop.orders", 4)]
    sink.rename(moves, (5, 0, 0), {4: after, 5: deleted})
    sink.load(TABLE, [batch(place, 1, 6, after, [{"id": 3, "contact": "x"}])], {6: after})
    sink.load(shadow.table, [begun(7, shadow), batch(place, 1, 7, shadow, [bob])], {7: shadow})

    assert rows_in(sink, "SELECT contact FROM shop.orders ORDER BY id") == [
        (hashed("bob@example.com"),),
        (hashed("x"),),
    ]
    assert rows_in(sink, "SELECT contact FROM shop._orders_gho") == [(hashed("bob@example.com"),)]


@on_every_target
@pytest.mark.parametrize("pattern", ["email", "shop.orders.email", "shop.*.email"])
def test_a_column_that_got_another_name_is_hidden_in_a_table_that_begins_anew(place: Place, pattern: str) -> None:
    by_name, names = rules(**{pattern: SALT}), (("email", "contact"),)
    after = PEOPLE.with_columns_renamed(names)
    sink = place.open(rules=by_name)
    sink.load(
        TABLE, [batch(place, 0, 1, PEOPLE, [ANN]), renamed(place, 1, 2, after, [], *names)], {1: PEOPLE, 2: after}
    )

    bob: Row = {"id": 2, "contact": "bob@example.com"}
    sink.load(TABLE, [begun(3, after), batch(place, 1, 3, after, [bob])], {3: after})

    assert rows_in(sink, "SELECT id, contact FROM shop.orders") == [(2, hashed("bob@example.com"))]


def test_a_column_that_got_another_name_is_hidden_in_what_takes_the_name_of_its_table(place: Place) -> None:
    names, clients = (("email", "contact"),), TableId("shop", "clients")
    after = PEOPLE.with_columns_renamed(names)
    sink = place.open(rules=rules(email=SALT))
    sink.load(
        TABLE, [batch(place, 0, 1, PEOPLE, [ANN]), renamed(place, 1, 2, after, [], *names)], {1: PEOPLE, 2: after}
    )
    sink.rename([Move("shop.orders", "shop.clients", 3)], (3, 0, 0), {3: replace(after, table=clients)})

    sink.load(TABLE, [begun(4, after), batch(place, 1, 4, after, [{"id": 2, "contact": "x"}])], {4: after})

    assert rows_in(sink, "SELECT contact FROM shop.orders") == [(hashed("x"),)]


def test_a_table_that_began_anew_under_a_name_that_was_not_told_waits_for_a_rule(place: Place) -> None:
    after = PEOPLE.with_columns_renamed([("email", "contact")])
    work = [begun(3, after), batch(place, 1, 3, after, [{"id": 2, "contact": "bob@example.com"}])]
    sink = place.open(rules=rules(email=SALT))
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})

    with pytest.raises(TableStoppedError, match="may be email under another name, which was hashed"):
        sink.load(TABLE, work, {3: after})
    sink.close()
    sink = place.open(rules=rules(email=SALT, shop__orders__contact=SALT))
    sink.load(TABLE, work, {3: after})

    assert rows_in(sink, "SELECT id, contact FROM shop.orders") == [(2, hashed("bob@example.com"))]


def begun(schema_id: int, schema: TableSchema) -> Batch:
    place = (schema_id, 0, 0)
    told = replace(schema_change(schema_id, 1), table=schema.table, kind=SchemaChangeKind.CREATE)
    return replace(told, first_order=place, last_order=place)


def test_a_table_that_begins_anew_is_treated_by_its_own_names(place: Place) -> None:
    sink = place.open(rules=RULES)
    names = (("email", "contact"),)
    after = PEOPLE.with_columns_renamed(names)
    sink.load(
        TABLE, [batch(place, 0, 1, PEOPLE, [ANN]), renamed(place, 1, 2, after, [], *names)], {1: PEOPLE, 2: after}
    )
    sink.load(TABLE, [begun(3, PEOPLE), batch(place, 1, 3, PEOPLE, [ANN])], {3: PEOPLE})

    assert rows_in(sink) == [(1, hashed("ann@example.com"), "*****56")]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (LoadRules(), RULES, "so far it was as it is in the target, and now it would be hashed"),
        (RULES, LoadRules(), "so far it was hashed in the target, and now it would be as it is"),
        (rules(code=Drop()), LoadRules(), "so far it was dropped in the target"),
        (rules(email=SALT), rules(email=KeepLast(1)), "so far it was hashed in the target, and now it would be masked"),
        (rules(email=SALT), rules(email=OTHER_SALT), "its hashes in the target were made with another salt"),
    ],
)
def test_rules_that_change_stop_the_table_before_anything_mixes(
    place: Place, before: LoadRules, now: LoadRules, said: str
) -> None:
    sink = place.open(rules=before)
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
    loaded = rows_in(sink)
    sink.close()
    sink = place.open(rules=now)
    more = batch(place, 1, 1, PEOPLE, [{**ANN, "id": 2}])

    with pytest.raises(TableStoppedError) as caught:
        sink.load(TABLE, [more], {1: PEOPLE})

    assert said in str(caught.value)
    assert rows_in(sink) == loaded
    sink.close()
    assert place.open(rules=before).load(TABLE, [more], {1: PEOPLE}).rows == 1


def test_a_mask_may_become_another_mask(place: Place) -> None:
    sink = place.open(rules=rules(phone=KeepLast(2)))
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
    sink.close()

    sink = place.open(rules=rules(phone=KeepLast(1)))
    sink.load(TABLE, [batch(place, 1, 1, PEOPLE, [{**ANN, "id": 2}])], {1: PEOPLE})

    assert rows_in(sink, "SELECT phone FROM shop.orders ORDER BY id") == [("*****56",), ("******6",)]


def test_a_misspelled_column_stops_its_table_and_no_other(place: Place) -> None:
    sink = place.open(rules=rules(shop__orders__emial=SALT))
    other = replace(PEOPLE, table=TableId("shop", "other"))

    with pytest.raises(TableStoppedError, match=r"they name shop\.orders\.emial.*did you mean email\?"):
        sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})

    assert sink.load(other.table, [batch(place, 0, 2, other, [ANN])], {2: other}).rows == 1


@on_every_target
def test_rows_that_lack_columns_are_made_whole_from_what_was_treated(place: Place) -> None:
    partial = replace(PEOPLE, columns=(ID, CODE, replace(EMAIL, default="none"), PHONE), partial_rows=True)
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, partial, [ANN, {"id": 2, "lacks": "0010"}])], {1: partial})

    changes: list[Row] = [
        {"id": 1, "phone": "99", "op": "u", "lacks": "0110"},
        {"id": 2, "email": "x", "op": "u", "lacks": "0101"},
    ]
    sink.load(TABLE, [batch(place, 2, 1, partial, changes)], {1: partial})

    assert rows_in(sink) == [(1, hashed("ann@example.com"), "**"), (2, hashed("x"), None)]


@on_every_target
def test_a_changed_row_whose_snapshot_is_yet_to_come_waits_for_it_and_an_old_one_does_not(place: Place) -> None:
    partial, sink = replace(PEOPLE, partial_rows=True), place.open()
    begins = replace(schema_change(1), kind=SchemaChangeKind.CREATE, first_order=(1, 0, 1), last_order=(1, 0, 1))
    change = batch(place, 1, 1, partial, [{"id": 1, "code": 8, "op": "u", "lacks": "0110"}])
    young = replace(change, last_timestamp_ms=time.time_ns() // 1_000_000)
    old = replace(change, last_timestamp_ms=young.last_timestamp_ms - 2 * 3_600_000)
    whole = batch(place, 2, 1, partial, [{**ANN, "code": 8, "op": "r"}])
    with pytest.raises(TableStoppedError) as never_begun:
        sink.load(TABLE, [young], {1: partial})
    sink.load(TABLE, [begins], {1: partial})

    with pytest.raises(TableStoppedError) as too_old:
        sink.load(TABLE, [old], {1: partial})
    with pytest.raises(TableWaitsError, match="does not have them yet"):
        sink.load(TABLE, [young], {1: partial})
    sink.load(TABLE, [young, whole], {1: partial})

    for stopped in (never_begun.value, too_old.value):
        assert (stopped.retryable, "--full-refresh --link LINK" in stopped.hint) == (False, True)
    assert rows_in(sink) == [(1, "ann@example.com", "0123456", 8)]


@on_every_target
def test_an_interrupted_load_leaves_what_was_known_of_the_columns(place: Place) -> None:
    names = (("email", "contact"),)
    after = PEOPLE.with_columns_renamed(names)
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})
    good = renamed(place, 1, 2, after, [{"id": 2, "contact": "bob@example.com"}], *names)

    with pytest.raises(Exception, match="nowhere"):
        sink.load(TABLE, [good, replace(good, start_offset=2, end_offset=3, path="nowhere.parquet")], {2: after})
    # Where definitions commit by themselves, what came before the second one is committed, too.
    if not place.defines_ahead:
        _assert_untouched(sink, place)
    sink.load(TABLE, [good], {2: after})

    assert rows_in(sink, "SELECT contact FROM shop.orders ORDER BY id") == [
        (hashed("ann@example.com"),),
        (hashed("bob@example.com"),),
    ]


def _assert_untouched(sink: SqlSink, place: Place) -> None:
    assert rows_in(sink) == [(1, hashed("ann@example.com"), "*****56")]
    ((history,),) = place.ask(f"SELECT history FROM {place.state}.columns")
    assert "contact" not in str(history)
