"""Takes the messages of the batch topic on the driver, as a loading link does.

Executors would bring a handful of messages from Spark's process to this one,
several times a second, and nothing could be done with them side by side.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.topic_fingerprints import require_place
from penstock.jobs.pacing import Pacing
from penstock.wiring.batch_messages import read_batch_messages, reading_batches
from penstock.wiring.open import batch_topic, open_topic_log, open_topic_tail

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import MessageWork, Until
    from penstock.ports.topics import TopicLog

_MESSAGES_MAX = 500

_WAIT_SECONDS = 0.5
_LOOK_SECONDS = 10.0
"""How often it is asked whether brokers and topic are there, while nothing comes."""


def read_messages(spec: PipelineSpec, work: MessageWork, until: Until) -> None:
    """Take the messages that are there now, while `until` does not end the link. Raises as `follow_messages`."""
    place = (batch_topic(spec), 0)
    with closing(open_topic_log(spec)) as log:
        end = log.ends([place]).get(place)
        require_place(*place, work.start, end)
        for messages in read_batch_messages(spec, log, work.start, end or 0):
            for first in range(0, len(messages), _MESSAGES_MAX):
                if until(0.0):
                    return
                work.take(messages[first : first + _MESSAGES_MAX])


def follow_messages(spec: PipelineSpec, work: MessageWork, following: int, until: Until) -> None:
    """Take messages as they come, from the offset `following` on, until `until` says so.

    Raises what taking them raises, UnavailableError when the brokers are away, and
    PositionError when the topic is gone or cut short.
    """
    place = (batch_topic(spec), 0)
    with closing(open_topic_log(spec)) as log:
        _require_there(log, place, following)
        with closing(open_topic_tail(spec, {place: following})) as tail:
            looked_at, pacing = time.monotonic(), Pacing(work.pace_seconds)
            while not until(0.0):
                with reading_batches(spec, log, following):
                    messages = [(offset, value) for _, offset, value in tail.take(_MESSAGES_MAX, _WAIT_SECONDS)]
                now = time.monotonic()
                if messages:
                    pacing.begin(now)
                    work.take(messages)
                    following, looked_at = messages[-1][0] + 1, now
                    if until(pacing.wait_seconds(time.monotonic())):
                        return
                elif now - looked_at > _LOOK_SECONDS:
                    _require_there(log, place, following)
                    looked_at = now


def _require_there(log: TopicLog, place: tuple[str, int], following: int) -> None:
    require_place(*place, following, log.ends([place]).get(place))
