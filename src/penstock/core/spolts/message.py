"""What the user code of a spolt gets and gives (docs/spolts.md).

`penstock.spolts` is where users import all of this from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from penstock.core.spolts.row_images import Record, row_images, with_row_images

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Same(Enum):
    """Stands for what the message that an output comes from has."""

    KEY = "key"


SAME_KEY: Final = Same.KEY
"""The key of the message that an output comes from, byte for byte."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a topic, decoded.

    `timestamp_ms` is Kafka's, Unix milliseconds. `key` and `value` are what the
    topic's format makes of their bytes: a record of Avro or JSON is a dict, text is
    str, raw bytes are bytes; None where the message has none (a value of None is a
    tombstone). `headers` are Kafka's, in their order.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ms` as a moment in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp_ms)

    @property
    def operation(self) -> str | None:
        """`c`, `u`, `d` or `r` of a change (Debezium's letters); None for a message that is no change."""
        images = row_images(self.value)
        return None if images is None else images.op

    @property
    def before(self) -> Record | None:
        """The row before a change, as far as it is known; None where there was none, and for what is no change."""
        images = row_images(self.value)
        return None if images is None else images.before

    @property
    def after(self) -> Record | None:
        """The row after a change, as far as it is known; None where there is none, and for what is no change."""
        images = row_images(self.value)
        return None if images is None else images.after

    @property
    def row(self) -> Record | None:
        """The row of a change: as it is now, or, for a delete, as it last was."""
        images = row_images(self.value)
        return None if images is None else images.row

    @property
    def lacks(self) -> tuple[str, ...]:
        """The columns of `row` that the source's log has no values of, which are not in it.

        An update left them as they were; in a row that was created they have their defaults.
        """
        images = row_images(self.value)
        return () if images is None else images.lacks

    @property
    def before_lacks(self) -> tuple[str, ...]:
        """The columns of `before` that the source's log has no values of, which are not in it."""
        images = row_images(self.value)
        return () if images is None else images.before_lacks

    def difference(self) -> dict[str, tuple[Any, Any]]:
        """What an update changed: column to (before, after). Empty for everything else.

        So a service can pass over updates that only touch what it writes itself.
        ValueError where nobody can tell, since the log has a column of the new row only.
        """
        images = row_images(self.value)
        if images is None or images.before is None or images.after is None:
            return {}
        before, after = images.before, images.after
        unknown = [name for name in images.before_lacks if name in after]
        if unknown:
            text = (
                f"nobody can tell what the update changed: the log has no {unknown[0]} of the row before it. "
                "PostgreSQL logs it with ALTER TABLE ... REPLICA IDENTITY FULL, "
                "MySQL and MariaDB with binlog_row_image=FULL"
            )
            raise ValueError(text)
        columns = [*before, *(name for name in after if name not in before)]
        pairs = {name: (before.get(name), after.get(name)) for name in columns if name not in images.after_lacks}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def with_value(self, value: Record) -> Message:
        """Return the message with another value, to be written with the schema it was read with."""
        return replace(self, value=dict(value))

    def with_rows(self, before: Record | None, after: Record | None) -> Message:
        """Return a change with other rows, which still lack what they lacked if they do not have it.

        ValueError for a message that is no change, and for a flat one (of a source with
        `format: json`) without the row that it is about.
        """
        if self.operation is None:
            text = "a message that is no change has no rows"
            raise ValueError(text)
        return replace(self, value=with_row_images(self.value, before, after))


@dataclass(frozen=True, slots=True)
class Output:
    """One message to publish.

    `value` is a record for the output's schema, a `Message` for an output with
    `schema: same`, or None for a tombstone. `key` is raw bytes, text (in UTF-8),
    None for no key, or SAME_KEY. Where the output names its `key` fields they are
    taken from `value`, or from `key` if that is a record, as for a tombstone. `to`
    names the topic, which a spolt with a single output may leave out.
    """

    value: Record | Message | bytes | str | None
    key: Record | bytes | str | Same | None = SAME_KEY
    to: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Yielded by user code: the message goes to the dead letters, and what else it yielded is published."""

    reason: str


class DeadLetterError(Exception):
    """Raised by user code: the message goes to the dead letters, and nothing of it is published."""


Yielded: TypeAlias = Output | Message | DeadLetter
MessageFunction: TypeAlias = Callable[[Message], Iterable[Yielded] | Yielded | None]
"""One message to any number: returned one by one, as an iterable, yielded, or None for nothing."""

BatchFunction: TypeAlias = Callable[["pa.RecordBatch"], "pa.RecordBatch"]
"""Many messages at once, as columns (penstock.core.spolts.batches says which)."""

_Marked = TypeVar("_Marked", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Traits:
    """What user code says of itself with `@spolt`."""

    batches: bool = False
    output: pa.Schema | Mapping[str, pa.Schema] | None = None

    def schema_of(self, topic: str) -> pa.Schema | None:
        """The Arrow schema of what is written to `topic`, None where it says nothing of it."""
        return self.output.get(topic) if isinstance(self.output, Mapping) else self.output


def spolt(
    *, batches: bool = False, output: pa.Schema | Mapping[str, pa.Schema] | None = None
) -> Callable[[_Marked], _Marked]:
    """Say of a function or class what its signature does not: a decorator.

    `batches`: it takes an Arrow batch of messages and returns one, instead of a
    message each. `output` is the Arrow schema of what it writes, or one for each
    topic; Avro schemas are made of them.
    """

    def mark(marked: _Marked) -> _Marked:
        setattr(marked, _TRAITS, Traits(batches, output))
        return marked

    return mark


_TRAITS: Final = "_penstock_traits"


def traits_of(function: object) -> Traits:
    """What `@spolt` said of user code; of code without it, that it takes one message and tells no schema."""
    found = getattr(function, _TRAITS, None)
    return found if isinstance(found, Traits) else Traits()
