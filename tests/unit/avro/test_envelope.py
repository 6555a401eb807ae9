"""Encoding gives what fastavro gives, for small batches and large ones."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.avro.envelopes import (
    LARGE_ROWS,
    PROCESSED_AT_MS,
    SHOP,
    batch_of,
    encodable,
    repeated,
    written_keys,
    written_values,
)

from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.changes import RowBatch
from penstock.core.errors import TableStoppedError
from penstock.release import RELEASE


@given(st.from_type(RowBatch))
def test_small_batches_are_encoded_as_fastavro_does(batch: RowBatch) -> None:
    keys, values = encode_changes(encodable(batch.schema), batch, PROCESSED_AT_MS)

    assert values.to_pylist() == written_values(batch)
    assert keys.to_pylist() == written_keys(batch)


@given(st.from_type(RowBatch))
def test_large_batches_are_encoded_as_fastavro_does(batch: RowBatch) -> None:
    large = repeated(batch, LARGE_ROWS)

    keys, values = encode_changes(encodable(batch.schema), large, PROCESSED_AT_MS)

    assert values.to_pylist() == list(np.resize(np.array(written_values(batch), dtype=object), LARGE_ROWS))
    assert keys.to_pylist() == list(np.resize(np.array(written_keys(batch), dtype=object), LARGE_ROWS))


@pytest.mark.parametrize("rows", [1, LARGE_ROWS])
def test_a_null_in_a_column_without_nulls_stops_the_table(rows: int) -> None:
    nulls = pa.RecordBatch.from_arrays([pa.nulls(rows, pa.int64()), pa.nulls(rows, pa.string())], ["id", "note"])

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.id stopped at bin\.000001:100: .*NOT NULL"):
        encode_changes(encodable(SHOP), replace(batch_of(rows), after=nulls), PROCESSED_AT_MS)


def test_a_column_of_another_type_stops_the_table() -> None:
    narrow = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"])], ["id", "note"])

    with pytest.raises(TableStoppedError, match="came as int32, not int64"):
        encode_changes(encodable(SHOP), replace(batch_of(1), after=narrow), PROCESSED_AT_MS)


def test_the_release_in_the_messages_is_that_of_the_package() -> None:
    assert version("penstock") == RELEASE
