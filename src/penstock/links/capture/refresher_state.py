"""What refreshers know of the snapshots of a capture: what is read, what is locked, and what all of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.core.snapshots import Window
    from penstock.core.tables import TableId
    from penstock.ports.snapshots import Chunk, Definition, Snapshot

What: TypeAlias = "Chunk | Definition"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is being read for a snapshot, and what the log has told of its table since it began."""

    snapshot: Snapshot
    table: TableId
    topic: str
    future: Future[What]
    window: Window


@dataclass(frozen=True, slots=True)
class Locked:
    """The table that a snapshot has locked; what the log tells of it since it began anew makes `window` void."""

    snapshot: Snapshot
    table: TableId
    topic: str
    window: Window


@dataclass(slots=True)
class Known:
    """What all refreshers of a capture know of its snapshots, by their ids; `taken` says by which of them.

    `paused` are the tables whose snapshots wait for people.
    """

    taken: dict[str, object] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    chunk_rows: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    tell_at: dict[str, float] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
