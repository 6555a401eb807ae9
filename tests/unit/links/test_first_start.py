"""Rows of a copy are numbered on behind those of one that was broken off."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import TableStoppedError
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId
from penstock.links.capture.first_start import number_on

TABLE, POSITION = TableId("shop", "orders"), BinlogPosition("binlog.000001", 4)
BATCH = np.arange(10_000, dtype=np.int32)


def test_rows_go_on_behind_those_that_are_left_over() -> None:
    assert number_on(BATCH, 0, TABLE, POSITION).tolist() == BATCH.tolist()
    numbered = number_on(BATCH, 2**31 - 20_000, TABLE, POSITION)
    assert (int(numbered[0]), int(numbered[-1])) == (2**31 - 20_000, 2**31 - 10_001)
    assert numbered.dtype == np.dtype(np.int32)


def test_a_table_stops_before_its_numbers_are_too_large() -> None:
    for batch, left_over in ((BATCH, 2**31 - 19_999), (BATCH + np.int32(2**31 - 19_999), 0), (BATCH, 2**40)):
        with pytest.raises(TableStoppedError, match=r"more than 2,147,483,647 rows"):
            number_on(batch, left_over, TABLE, POSITION)
