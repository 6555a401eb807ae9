"""Publishes numbered messages without transactions, from where the checkpoint stands, until killed or done.

Arguments: bootstrap servers, database URL, pipeline, kind (repeatable, seldom saved,
varying or broken), how many messages, partitions.
"""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pyarrow as pa

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.watermarks import Saving, WatermarkPublisher
from penstock.adapters.state.checkpoints import open_checkpoints
from penstock.core.changes import Messages

LINK = "db"


def messages(topic: str, start: int, end: int, mark: str) -> Messages:
    """Messages of the numbers `[start, end)`, of seven keys."""
    keys = pa.array([b"key %d" % (number % 7) for number in range(start, end)], pa.binary())
    values = pa.array([f"{number} {mark}".encode() for number in range(start, end)], pa.binary())
    return Messages(topic, keys, values, np.arange(end - start, dtype=np.int64))


def main(servers: str, url: str, pipeline: str, kind: str, count: str, partitions: str) -> None:
    """Publish in groups whose sizes nobody knows beforehand."""
    chance = random.SystemRandom()
    checkpoints = open_checkpoints(url, pipeline, LINK)
    cluster = KafkaCluster(servers, int(partitions))
    saving = Saving(is_repeatable=kind != "varying", seconds=0.03 if kind == "seldom saved" else 0.0)
    with closing(WatermarkPublisher(cluster, pipeline, LINK, checkpoints, saving)) as publisher:
        record = publisher.position()
        if record is None and kind != "broken":
            # What is broken off before there is a record does not come again.
            publisher.publish((), lambda: {"next": 0})
        start = int(str((record or {"next": 0})["next"]))
        while start < int(count):
            end = min(int(count), start + chance.randint(1, 40))
            # What varies says so in every message.
            mark = "" if kind != "varying" else str(chance.random())
            parts = [messages(f"{pipeline}.{name}", start, end, mark) for name in ("a", "b")]
            publisher.publish(parts, lambda end=end: {"next": end})  # type: ignore[misc]
            start = end
        publisher.settle()
