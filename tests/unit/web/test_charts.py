"""What the page draws of samples."""

from __future__ import annotations

import pytest

from penstock.ports.history import DAY, HOUR, Ring, Sample
from penstock.web.charts import HEIGHT, WIDTH, draw, lag, throughput


@pytest.mark.parametrize("ring", [HOUR, DAY])
def test_a_chart_stays_as_it_is_until_its_ring_may_have_a_new_sample(ring: Ring) -> None:
    step_ms = ring.seconds * 1000
    now_ms = 1_700_000_000_000 // step_ms * step_ms
    points = [(now_ms - age * step_ms, 2.0) for age in range(5, -1, -1)]

    charts = {draw(points, ring, now_ms + after_ms) for after_ms in (0, step_ms // 2, step_ms - 1)}

    assert len(charts) == 1
    assert draw(points, ring, now_ms + step_ms) not in charts


def test_samples_that_are_missing_or_unknown_leave_a_gap_and_old_ones_are_not_shown() -> None:
    step_ms, now_ms = HOUR.seconds * 1000, HOUR.span_ms * 100
    ages = {400: 99.0, 50: 1.0, 49: 2.0, 44: 4.0, 43: None, 42: 2.0}

    chart = draw([(now_ms - age * step_ms, value) for age, value in ages.items()], HOUR, now_ms)

    assert [chart.line.count("M"), chart.top, chart.newest] == [3, 4.0, 2.0]


def test_the_newest_sample_is_at_the_right_and_the_greatest_near_the_top() -> None:
    now_ms = HOUR.span_ms * 100

    chart = draw([(now_ms - 3_500_000, 0.0), (now_ms, 10.0)], HOUR, now_ms)

    x, y = (float(each) for each in chart.line.rpartition("M")[2].partition(" L")[0].split())
    assert x == pytest.approx(WIDTH, abs=WIDTH / 300)
    assert y < HEIGHT / 10


def test_rates_are_those_of_the_ring_s_own_steps() -> None:
    samples = [Sample(0, 0, 1.0), Sample(300_000, 3000, None), Sample(1_500_000, 9000, 5.0), Sample(1_500_001, 1, 0.0)]

    assert throughput(samples, DAY) == [(300_000, 10.0), (1_500_000, None), (1_500_001, 0.0)]
    assert throughput(samples[:2], HOUR) == [(300_000, None)]
    assert lag(samples)[:2] == [(0, 1.0), (300_000, None)]
