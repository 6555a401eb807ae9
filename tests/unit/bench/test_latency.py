"""What a bench of latency makes of keys and times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.capture.latency import DEFAULTS, LOW, Times, id_of_avro, id_of_json, percentile, plan_figures
from penstock.bench.capture.pipeline import LOW_LATENCY
from penstock.core.avro.varints import varint
from penstock.core.avro.wire import frame
from penstock.core.errors import PenstockError


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_avro_key_of_ours_tells_its_id(row: int) -> None:
    assert id_of_avro(frame(7) + varint(row)) == row


def test_a_json_key_tells_its_id() -> None:
    assert id_of_json(b'{"id":12}') == 12


def test_percentiles_are_values_that_were_measured() -> None:
    ranked = [float(number) for number in range(1, 101)]

    assert (percentile(ranked, 50), percentile(ranked, 99), percentile([3.0], 99)) == (50.0, 99.0, 3.0)


def test_ours_is_beside_both_peers_and_ours_for_low_latency_beside_the_tuned_one() -> None:
    ours, low, tuned = ({rate: Times(p50, p50 + 1, 0.5, rate) for rate in (200, 1_000)} for p50 in (16.0, 4.0, 5.0))

    figures = plan_figures(ours, low, {DEFAULTS: PenstockError("no jars", "fetch them"), LOW: tuned})

    name = "commit to Kafka at 200 one-row transactions a second"
    found = {(each.name, each.peer): (each.value, each.peer_value) for each in figures}
    assert len(found) == len(figures) == 18
    assert found[f"{name}, p50", DEFAULTS] == (16.0, None)
    assert found[f"{name}, p99", LOW] == (17.0, 6.0)
    assert found[f"{name}, {LOW_LATENCY}, p50", LOW] == (4.0, 5.0)
    assert found[f"{name}, {LOW_LATENCY}, CPU", LOW] == (0.5, 0.5)


def test_each_line_has_its_own_target() -> None:
    ours, low = ({rate: Times(p50, p50 * 2, 0.06, rate) for rate in (200, 1_000)} for p50 in (25.0, 4.0))
    loose = {rate: Times(260.0, 500.0, 0.05, rate) for rate in (200, 1_000)}
    tuned = {rate: Times(5.0, 9.0, 0.4, rate) for rate in (200, 1_000)}

    figures = plan_figures(ours, low, {DEFAULTS: loose, LOW: tuned})

    name = "commit to Kafka at 1,000 one-row transactions a second"
    found = {(each.name, each.peer): (each.target, each.ok) for each in figures}
    assert [found[f"{name}, {what}", DEFAULTS] for what in ("p50", "p99", "CPU")] == [
        (30.0, True),
        (400.0, True),
        (1.0, False),
    ]
    assert [found[f"{name}, {what}", LOW] for what in ("p50", "p99", "CPU")] == [(None, None)] * 3
    assert found[f"{name}, {LOW_LATENCY}, p50", LOW] == (None, None)
    assert found[f"{name}, {LOW_LATENCY}, p99", LOW] == (1.0, True)
