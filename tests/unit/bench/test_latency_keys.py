"""Keys of messages tell which row came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.capture.latency import id_of_avro, id_of_json, percentile
from penstock.core.avro.varints import varint
from penstock.core.avro.wire import frame


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_avro_key_of_ours_tells_its_id(row: int) -> None:
    assert id_of_avro(frame(7) + varint(row)) == row


def test_a_json_key_tells_its_id() -> None:
    assert id_of_json(b'{"id":12}') == 12


def test_percentiles_are_values_that_were_measured() -> None:
    ranked = [float(number) for number in range(1, 101)]

    assert (percentile(ranked, 50), percentile(ranked, 99), percentile([3.0], 99)) == (50.0, 99.0, 3.0)
