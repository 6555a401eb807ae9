"""Positions of a reader that began in the middle of a log, made whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.mysql.events.gtid_sets import add_known
from penstock.core.positions import Heartbeat

if TYPE_CHECKING:
    from penstock.core.positions import BinlogPosition


def on_top_of(base: BinlogPosition, position: BinlogPosition) -> BinlogPosition:
    """Return `position`, read from `base` on by somebody who knew nothing but that place."""
    heartbeat = position.heartbeat
    if heartbeat is not None and not heartbeat.serial:
        heartbeat = (base.heartbeat or Heartbeat()).with_counts(*heartbeat.counted[1:])
    gtids = add_known(position.gtids, base.gtids)
    return replace(position, gtids=gtids, timeline=base.timeline, heartbeat=heartbeat)
