"""What a pipeline remembers for its page, on every state database: samples of an hour and a day, and its servers."""

from __future__ import annotations

from contextlib import closing

from penstock.adapters.state.history import open_history
from penstock.ports.history import DAY, HOUR, Sample, ServerCondition


def test_samples_older_than_an_hour_make_room_and_pipelines_do_not_mix(state_url: str) -> None:
    began_ms, step_ms, steps = 1_700_000_000_000, HOUR.seconds * 1000, HOUR.size + 30
    with closing(open_history(state_url, "shop")) as history, closing(open_history(state_url, "other")) as other:
        other.add_samples({"objects": Sample(began_ms, 1, None)})
        for step in range(steps):
            history.add_samples({"objects": Sample(began_ms + step * step_ms, step, step / 2)})

        kept = history.samples(HOUR, 0)
        late = history.samples(HOUR, began_ms + (steps - 1) * step_ms)
        others = other.samples(HOUR, 0)

    assert [sample.rows for sample in kept["objects"]] == list(range(30, steps))
    assert late == {"objects": [Sample(began_ms + (steps - 1) * step_ms, steps - 1, (steps - 1) / 2)]}
    assert others == {"objects": [Sample(began_ms, 1, None)]}


def test_of_a_day_five_minutes_are_one_sample_with_their_greatest_lag_whoever_wrote_it(state_url: str) -> None:
    five_minutes = DAY.seconds * 1000
    began_ms = 1_700_000_000_000 // five_minutes * five_minutes
    lags = (1.0, 90.0, None, 2.0)
    for step, lag_seconds in enumerate(lags):
        # Each by a run of its own.
        with closing(open_history(state_url, "shop")) as history:
            history.add_samples({"objects": Sample(began_ms + step * 10_000, step, lag_seconds)})
    with closing(open_history(state_url, "shop")) as history:
        history.add_samples({"objects": Sample(began_ms + five_minutes, 9, None)})
        kept = history.samples(DAY, 0)
        for step in range(1, DAY.size + 1):
            history.add_samples({"objects": Sample(began_ms + step * five_minutes, step, 0.5)})
        a_day_later = history.samples(DAY, 0)["objects"]

    assert kept == {"objects": [Sample(began_ms + 30_000, 3, 90.0), Sample(began_ms + five_minutes, 9, None)]}
    assert [sample.at_ms for sample in a_day_later] == [
        began_ms + step * five_minutes for step in range(1, DAY.size + 1)
    ]
    # What was in the slot a day ago is not mixed into it.
    assert a_day_later[-1].lag_seconds == 0.5


def test_servers_are_as_they_were_last_written(state_url: str) -> None:
    kafka, tracker = ServerCondition("Kafka", "starting", 7, 2), ServerCondition("schema tracker", "running", 5)
    with closing(open_history(state_url, "shop")) as history, closing(open_history(state_url, "other")) as other:
        history.save_servers([tracker, kafka])
        both = history.servers()
        history.save_servers([tracker])
        other.save_servers([])

        assert (both, history.servers(), other.servers()) == ([kafka, tracker], [tracker], [])
