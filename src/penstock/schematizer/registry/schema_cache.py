"""Schemas by id, kept in memory: a schema's text never changes."""

from __future__ import annotations

from collections import OrderedDict

_BYTES_MAX = 64 << 20
# What an entry costs beside its body, about.
_ENTRY_BYTES = 250


class SchemaCache:
    """The answers to the ids that were asked for last. For use from one thread: the event loop's."""

    def __init__(self) -> None:
        """Begin empty."""
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._drops = 0

    @property
    def drops(self) -> int:
        """How often an answer was to be forgotten: what is read from the database is as old as this was then."""
        return self._drops

    def get(self, schema_id: int) -> bytes | None:
        """Return the answer kept for `schema_id`, None if there is none."""
        if schema_id in self._bodies:
            self._bodies.move_to_end(schema_id)
        return self._bodies.get(schema_id)

    def put(self, schema_id: int, body: bytes, drops: int) -> None:
        """Keep an answer, and forget those that were not asked for longest if there are too many.

        It is not kept where something was deleted since there were `drops`: it may have been this.
        """
        if drops != self._drops:
            return
        self._forget(schema_id)
        self._bodies[schema_id] = body
        self._bytes += len(body) + _ENTRY_BYTES
        while self._bytes > _BYTES_MAX:
            self._forget(next(iter(self._bodies)))

    def drop(self, schema_id: int) -> None:
        """Forget the answer for `schema_id`, which may have been deleted for ever."""
        self._drops += 1
        self._forget(schema_id)

    def _forget(self, schema_id: int) -> None:
        body = self._bodies.pop(schema_id, None)
        if body is not None:
            self._bytes -= len(body) + _ENTRY_BYTES
