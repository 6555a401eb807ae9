"""Rows of the log as columns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.changes import Op, RowBatch
from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import message_order
from penstock.core.positions import WalPosition
from penstock.core.postgres.catalog import CatalogColumn, CatalogTable
from penstock.core.postgres.log_items import RowLogged, RowsLogged
from penstock.core.postgres.messages import UNCHANGED, Relation
from penstock.core.postgres.partitions import Partition
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.rows import RowDecoder
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.types import TypeInfo

_TYPES = {encoding.INT4: TypeInfo("int4"), encoding.TEXT: TypeInfo("text"), encoding.NUMERIC: TypeInfo("numeric")}
_TABLE = encoding.relation([("id", encoding.INT4), ("name", encoding.TEXT), ("note", encoding.TEXT)])


def _rows(table: Relation, *messages: bytes) -> list[RowLogged]:
    scanner = PgoutputScanner(WalPosition(0))
    log = [encoding.encode_begin(100), encoding.encode_relation(table), *messages, encoding.encode_commit(100, 110)]
    return [item for message in log for item in scanner.take(message) if isinstance(item, RowLogged)]


def _decoded(table: Relation, *messages: bytes) -> list[RowBatch]:
    schema = table_schema(table, None, _TYPES)
    return list(RowDecoder.of(schema, table, _TYPES).decode(_rows(table, *messages)))


def test_an_update_that_did_not_touch_a_large_value_says_that_it_lacks_it() -> None:
    (batch,) = _decoded(_TABLE, encoding.encode_update(_TABLE.oid, None, (b"1", b"a", UNCHANGED)))

    assert batch.after_lacks == ("note",)
    assert batch.before_lacks == ("name", "note")
    assert batch.before is not None
    assert batch.after is not None
    assert batch.before.to_pylist() == [{"id": 1, "name": None, "note": None}]
    assert batch.after.to_pylist() == [{"id": 1, "name": "a", "note": None}]


def test_whole_old_rows_give_large_values_that_were_not_touched() -> None:
    whole = encoding.relation([("id", encoding.INT4), ("note", encoding.TEXT)], identity="f")
    schema = table_schema(whole, None, _TYPES)

    (batch,) = RowDecoder.of(schema, whole, _TYPES).decode(
        _rows(whole, encoding.encode_update(whole.oid, (b"1", b"long"), (b"2", UNCHANGED), whole=True))
    )

    assert (batch.before_lacks, batch.after_lacks) == ((), ())
    assert batch.after is not None
    assert batch.after.to_pylist() == [{"id": 2, "note": "long"}]


def test_a_delete_has_its_key_and_lacks_the_rest() -> None:
    (batch,) = _decoded(_TABLE, encoding.encode_delete(_TABLE.oid, (b"1", None, None)))

    assert batch.before_lacks == ("name", "note")
    assert batch.after is None


def test_a_row_with_another_key_that_is_not_whole_stops_its_table() -> None:
    with pytest.raises(TableStoppedError, match="another key") as stopped:
        _decoded(_TABLE, encoding.encode_update(_TABLE.oid, (b"1", None, None), (b"2", b"a", UNCHANGED)))

    assert "REPLICA IDENTITY FULL" in stopped.value.hint


def test_a_key_that_is_stored_apart_and_was_not_touched_is_the_old_one() -> None:
    (batch,) = _decoded(_TABLE, encoding.encode_update(_TABLE.oid, (b"1", None, None), (UNCHANGED, b"a", UNCHANGED)))

    assert batch.after_lacks == ("note",)
    assert batch.after is not None
    assert batch.after.to_pylist() == [{"id": 1, "name": "a", "note": None}]


def _partitioned(*messages: bytes, count: int = 1) -> list[RowBatch]:
    """Rows of a partitioned table with REPLICA IDENTITY FULL, `count` of each, so that many are read at once."""
    whole = encoding.relation([("id", encoding.INT4), ("name", encoding.TEXT), ("note", encoding.TEXT)], identity="f")
    catalog = CatalogTable(
        whole.oid,
        "public",
        "t",
        (CatalogColumn(1, "id"), CatalogColumn(2, "name"), CatalogColumn(3, "note")),
        ("id",),
        partitions=(Partition(17, 700, is_made_as_one=True),),
    )
    schema = table_schema(whole, catalog, _TYPES)
    log = [encoding.encode_begin(100), encoding.encode_relation(whole), *(m for m in messages for _ in range(count))]
    rows = [i for i in PgoutputScanner(WalPosition(0)).take_all(log) if isinstance(i, RowLogged | RowsLogged)]
    assert any(isinstance(each, RowsLogged) for each in rows) == (count > 1)
    return list(RowDecoder.of(schema, whole, _TYPES).decode(rows))


_MANY = 40


@pytest.mark.parametrize("count", [1, _MANY])
def test_a_whole_old_row_that_is_the_key_of_a_partition_is_taken_for_that(count: int) -> None:
    key = (b"1", None, None)

    (deleted,) = _partitioned(encoding.encode_delete(_TABLE.oid, key, whole=True), count=count)
    (changed,) = _partitioned(encoding.encode_update(_TABLE.oid, key, (b"1", b"a", UNCHANGED), whole=True), count=count)

    assert (len(deleted), deleted.before_lacks) == (count, ("name", "note"))
    assert (len(changed), changed.before_lacks, changed.after_lacks) == (count, ("name", "note"), ("note",))
    with pytest.raises(TableStoppedError, match=r"public\.t\.note stopped .* another key") as stopped:
        _partitioned(
            encoding.encode_update(_TABLE.oid, key, (b"2", b"a", UNCHANGED), whole=True),
            count=count,
        )
    assert "pg_partition_tree('public.t')" in stopped.value.hint


@pytest.mark.parametrize("count", [1, _MANY])
def test_old_rows_of_partitions_that_log_them_whole_are_whole(count: int) -> None:
    old = (b"1", None, b"long")

    deleted = _partitioned(encoding.encode_delete(_TABLE.oid, old, whole=True), count=count)
    moved = _partitioned(encoding.encode_update(_TABLE.oid, old, (b"2", None, UNCHANGED), whole=True), count=count)

    befores = [row for batch in deleted if batch.before is not None for row in batch.before.to_pylist()]
    assert befores == [{"id": 1, "name": None, "note": "long"}] * count
    afters = [row for batch in moved if batch.after is not None for row in batch.after.to_pylist()]
    assert afters == [{"id": 2, "name": None, "note": "long"}] * count
    assert {(each.before_lacks, each.after_lacks) for each in (*deleted, *moved)} == {((), ())}


@pytest.mark.parametrize("count", [1, _MANY])
def test_an_old_row_without_its_key_stops_the_table(count: int) -> None:
    """As of a partition whose replica identity is an index of other columns."""
    delete = encoding.encode_delete(_TABLE.oid, (None, b"a", None), whole=True)

    with pytest.raises(TableStoppedError, match=r"public\.t\.id stopped .* without the key"):
        _partitioned(delete, count=count)


def test_a_value_that_cannot_be_carried_is_named_with_its_place() -> None:
    with pytest.raises(TableStoppedError, match=r"public\.t\.id stopped at 0/64 row 1") as stopped:
        _decoded(
            _TABLE,
            encoding.encode_insert(_TABLE.oid, (b"1", b"a", None)),
            encoding.encode_insert(_TABLE.oid, (b"x", b"a", None)),
        )

    assert stopped.value.column == "id"


def test_batches_of_several_kinds_sort_into_the_order_of_the_log() -> None:
    batches = _decoded(
        _TABLE,
        encoding.encode_insert(_TABLE.oid, (b"1", b"a", None)),
        encoding.encode_update(_TABLE.oid, None, (b"1", b"b", UNCHANGED)),
        encoding.encode_insert(_TABLE.oid, (b"2", b"c", None)),
        encoding.encode_delete(_TABLE.oid, (b"1", None, None)),
    )

    order = np.concatenate([message_order(batch) for batch in batches])
    ops = [batch.op for batch in batches for _ in range(len(batch))]
    assert [ops[index] for index in np.argsort(order)] == [Op.CREATE, Op.UPDATE, Op.CREATE, Op.DELETE]
