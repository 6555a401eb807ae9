"""The topics of a pipeline: their names, and how each is kept."""

from __future__ import annotations

POSITION_SETTINGS = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",
    "segment.ms": "3600000",
    "segment.bytes": "16777216",
}
"""One key, so compaction keeps the newest record; an hour's records stay for the mirror to count."""

LEDGER_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Batches and schemas are what targets restart from: never thrown away."""

TABLE_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "604800000"}
"""Changes stay a week: a link that is down for longer says so and stops."""


def position_topic(pipeline: str, link: str) -> str:
    """Where `link` commits its position records."""
    return f"penstock.{pipeline}.position.{link}"


def schemas_topic(pipeline: str) -> str:
    """Where captures announce each table's schema and topic, in log order per source."""
    return f"penstock.{pipeline}.schemas"


def batches_topic(pipeline: str) -> str:
    """Where the S3 spolt announces its files."""
    return f"penstock.{pipeline}.batches"
