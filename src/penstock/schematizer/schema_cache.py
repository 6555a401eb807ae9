"""Schemas by id, kept in memory: a schema's text never changes."""

from __future__ import annotations

from collections import OrderedDict

_ENTRIES_MAX = 10_000


class SchemaCache:
    """The answers to the ids that were asked for last. For use from one thread: the event loop's."""

    def __init__(self) -> None:
        """Begin empty."""
        self._bodies: OrderedDict[int, bytes] = OrderedDict()

    def get(self, schema_id: int) -> bytes | None:
        """Return the answer kept for `schema_id`, None if there is none."""
        if schema_id in self._bodies:
            self._bodies.move_to_end(schema_id)
        return self._bodies.get(schema_id)

    def put(self, schema_id: int, body: bytes) -> None:
        """Keep an answer, and forget the one that was not asked for longest if there are too many."""
        self._bodies[schema_id] = body
        if len(self._bodies) > _ENTRIES_MAX:
            self._bodies.popitem(last=False)
