"""The join's algebra in this process, row by row: what the kernel in jvm/join does, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from penstock.core.joins.events import DELETE, TRUNCATE
from penstock.core.joins.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.joins.intake import Event

_Joined: TypeAlias = "dict[tuple[bytes | None, ...], tuple[bytes | None, ...]]"
"""Row keys of a joined row, and its rows: None where an input that need not match does not."""


@dataclass(slots=True)
class _Side:
    """The rows of one input: row key to (join key, order, row), and join key to its row keys, in order."""

    rows: dict[bytes, tuple[bytes, tuple[int, int], bytes]] = field(default_factory=dict)
    keys: dict[bytes, dict[bytes, None]] = field(default_factory=dict)

    def remove(self, row_key: bytes) -> None:
        """Take a row out, if it is there."""
        known = self.rows.pop(row_key, None)
        if known is not None:
            del self.keys[known[0]][row_key]

    def put(self, event: Event) -> None:
        """Put a row in, or in the place of what it was."""
        self.remove(event.row_key)
        self.rows[event.row_key] = (event.join_key, event.order, event.row)
        self.keys.setdefault(event.join_key, {})[event.row_key] = None


class JoinState:
    """The rows of all inputs, and how far each part of each input was read."""

    def __init__(self, inputs: int, optional: int = 0) -> None:
        """Begin without rows. `optional` has a bit for each input that need not match."""
        self._optional = [bool(optional >> index & 1) for index in range(inputs)]
        self._sides = [_Side() for _ in range(inputs)]
        self._intake = Intake()

    def apply(self, events: Sequence[pa.RecordBatch]) -> pa.Table:
        """Apply one micro-batch of events; return the differences, columns as in `blocks.unpack_differences`.

        What was applied before does nothing. Events of a part may come in any order.
        """
        truncates, rows = self._intake.take(events)
        touched = self._touched([*truncates, *rows])
        before = self._joined(touched)
        for event in truncates:
            self._truncate(event)
        for event in rows:
            side = self._sides[event.input]
            if event.op == DELETE:
                side.remove(event.row_key)
            else:
                side.put(event)
        return _differences(before, self._joined(touched), len(self._sides))

    def _touched(self, events: Sequence[Event]) -> set[bytes]:
        """The join keys whose rows may change."""
        touched: set[bytes] = set()
        for event in events:
            side = self._sides[event.input]
            if event.op == TRUNCATE:
                touched |= side.keys.keys()
            touched.add(event.join_key)
            known = side.rows.get(event.row_key)
            if known is not None:
                touched.add(known[0])
        return touched

    def _truncate(self, event: Event) -> None:
        side = self._sides[event.input]
        for row_key in [key for key, (_, order, _) in side.rows.items() if order < event.order]:
            side.remove(row_key)

    def _joined(self, join_keys: Iterable[bytes]) -> _Joined:
        joined: _Joined = {}
        for join_key in join_keys:
            for row_keys in product(*self._rows_of(join_key)):
                found = zip(self._sides, row_keys, strict=True)
                joined[row_keys] = tuple(None if key is None else side.rows[key][2] for side, key in found)
        return joined

    def _rows_of(self, join_key: bytes) -> Iterator[Iterable[bytes | None]]:
        for side, is_optional in zip(self._sides, self._optional, strict=True):
            yield side.keys.get(join_key) or ((None,) if is_optional else ())


def _differences(before: _Joined, after: _Joined, inputs: int) -> pa.Table:
    nothing = (None,) * inputs
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    columns = {
        f"{letter}{index}": pa.array([rows.get(key, nothing)[index] for key in changed], pa.binary())
        for letter, rows in (("b", before), ("a", after))
        for index in range(inputs)
    }
    return pa.table(columns)
