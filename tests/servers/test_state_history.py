"""What a pipeline remembers for its page: an hour of samples and no more, and its servers, on every state database."""

from __future__ import annotations

from contextlib import closing

from penstock.adapters.state.history import open_history
from penstock.ports.history import SAMPLE_SECONDS, SAMPLES_MAX, Sample, ServerCondition


def test_samples_older_than_an_hour_make_room_and_pipelines_do_not_mix(state_url: str) -> None:
    began_ms, step_ms, two_hours = 1_700_000_000_000, SAMPLE_SECONDS * 1000, 2 * SAMPLES_MAX
    with closing(open_history(state_url, "shop")) as history, closing(open_history(state_url, "other")) as other:
        other.add_samples({"objects": Sample(began_ms, 1, None)})
        for step in range(two_hours):
            history.add_samples({"objects": Sample(began_ms + step * step_ms, step, step / 2)})

        kept = history.samples(0)
        late = history.samples(began_ms + (two_hours - 1) * step_ms)
        others = other.samples(0)

    assert [sample.rows for sample in kept["objects"]] == list(range(SAMPLES_MAX, two_hours))
    assert late == {"objects": [Sample(began_ms + (two_hours - 1) * step_ms, two_hours - 1, (two_hours - 1) / 2)]}
    assert others == {"objects": [Sample(began_ms, 1, None)]}


def test_servers_are_as_they_were_last_written(state_url: str) -> None:
    kafka, tracker = ServerCondition("Kafka", "starting", 7, 2), ServerCondition("schema tracker", "running", 5)
    with closing(open_history(state_url, "shop")) as history, closing(open_history(state_url, "other")) as other:
        history.save_servers([tracker, kafka])
        both = history.servers()
        history.save_servers([tracker])
        other.save_servers([])

        assert (both, history.servers(), other.servers()) == ([kafka, tracker], [tracker], [])
