"""Rows of the log as columns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.changes import Op, RowBatch
from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import message_order
from penstock.core.positions import WalPosition
from penstock.core.postgres.log_items import RowLogged
from penstock.core.postgres.messages import UNCHANGED, Relation
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
