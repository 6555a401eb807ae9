"""What the workers of a join do: read messages as events, and pack those for the kernel.

As in `capture_tasks`, what talks to servers is imported where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from penstock.config.specs import PipelineSpec
    from penstock.core.avro.arrays import Integers
    from penstock.core.joins.unreadable import Unreadable
    from penstock.links.joins.decode import JoinDecoder
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.registry import Registry


PIECE_BYTES: Final = 64 << 20
"""Of events that are packed together. The kernel takes any number of blocks of a bucket, in any order."""


@dataclass(frozen=True, slots=True)
class MessagePacker:
    """Makes of messages (topic, partition, offset, value, key) a block of events for each bucket. Travels to executors.

    Of keys, only those of messages without a value are wanted.
    """

    pipeline: PipelineSpec
    job: JoinJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the messages of a task, many together; raises what `JoinDecoder.decode` does."""
        from penstock.core.joins.blocks import in_pieces  # noqa: PLC0415 - see the module's docstring
        from penstock.links.joins.decode import set_apart  # noqa: PLC0415

        decoder = _decoder(self)
        unreadable: list[Unreadable] = []
        decoded = (
            each
            for batch in batches
            for place, offsets, values, keys in _by_partition(batch)
            for each in decoder.decode(*place, offsets, values, keys)
        )
        for events in in_pieces(set_apart(decoded, unreadable), PIECE_BYTES):
            yield from _packed(events, unreadable, self.first_by)
            unreadable.clear()
        yield from _packed([], unreadable, self.first_by)

    @property
    def first_by(self) -> str:
        """By which keys buckets are that the kernel's first operator reads."""
        plan = self.job.plan
        return "row_key" if plan.partial or plan.remembered else "join_key"


@dataclass(frozen=True, slots=True)
class CompletedPacker:
    """Makes of blocks whose rows the kernel has made whole those that the join reads. Travels to executors."""

    job: JoinJob
    piece_bytes: int = PIECE_BYTES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the blocks of a task; raises PenstockError for rows that the plan does not fit any more."""
        from penstock.core.joins.blocks import in_pieces  # noqa: PLC0415 - see the module's docstring
        from penstock.core.joins.completing import completed_events  # noqa: PLC0415
        from penstock.links.joins.decode import sort_out, to_join  # noqa: PLC0415

        by, aside = "row_key" if self.job.plan.remembered else "join_key", list[bytes]()
        for events in in_pieces(_unpacked(batches, aside), self.piece_bytes):
            whole, orphans = sort_out(to_join(self.job, completed_events(self.job.plan, events)))
            yield from _packed(whole, orphans, by, aside)
            aside.clear()
        yield from _packed([], [], by, aside)


def _unpacked(batches: Iterable[pa.RecordBatch], aside: list[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the events of blocks, one block after the other, and add to `aside` those that are no events."""
    from penstock.core.joins.blocks import unpack_events  # noqa: PLC0415 - see the module's docstring
    from penstock.core.joins.unreadable import BUCKET  # noqa: PLC0415

    for batch in batches:
        for bucket, block in zip(*batch.columns, strict=True):
            if bucket.as_py() == BUCKET:
                aside.append(block.as_py())
            else:
                yield from unpack_events(block.as_py())


def _packed(
    events: Sequence[pa.RecordBatch], unreadable: Sequence[Unreadable], by: str, aside: Sequence[bytes] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows that the kernel reads: events in buckets `by` some key, and what goes past it."""
    import pyarrow as pa  # noqa: PLC0415 - see the module's docstring

    from penstock.core.joins.blocks import pack_events  # noqa: PLC0415
    from penstock.core.joins.unreadable import BUCKET, pack_unreadable  # noqa: PLC0415

    packed = list(pack_events(events, by)) if events else []
    packed += [(BUCKET, block) for block in aside]
    if unreadable:
        packed.append((BUCKET, pack_unreadable(unreadable)))
    if not packed:
        return
    buckets, blocks = zip(*packed, strict=True)
    columns: dict[str, pa.Array[Any]] = {
        "bucket": pa.array(buckets, pa.int32()),
        "block": pa.array(blocks, pa.binary()),
    }
    yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True)
class _Workplace:
    """What the tasks of a join in one process share: schemas are asked for once."""

    task: MessagePacker
    registry: Registry
    decoder: JoinDecoder


_kept: dict[tuple[str, str], _Workplace] = {}
"""By a join's name and the digest of its plan: while it is made again, tasks of two run here."""


def _decoder(task: MessagePacker) -> JoinDecoder:
    from penstock.links.joins.decode import JoinDecoder  # noqa: PLC0415 - see the module's docstring
    from penstock.wiring.open import open_registry  # noqa: PLC0415

    place = task.job.name, task.job.plan.digest
    kept = _kept.get(place)
    if kept is None or kept.task != task:
        if kept is not None:
            kept.registry.close()
        registry = open_registry(task.pipeline)
        kept = _kept[place] = _Workplace(task, registry, JoinDecoder(task.job, registry.value_schema))
    return kept.decoder


def _by_partition(
    batch: pa.RecordBatch,
) -> Iterator[tuple[tuple[str, int], Integers, pa.BinaryArray, pa.BinaryArray]]:
    """The messages of each partition in the order of their offsets: those, values and keys."""
    import pyarrow as pa  # noqa: PLC0415 - see the module's docstring

    table = pa.Table.from_batches([batch]).sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    topics: list[Any] = table["topic"].to_pylist()
    partitions: list[Any] = table["partition"].to_pylist()
    chunks: list[Any] = table.select(["offset", "value", "key"]).combine_chunks().to_batches()
    offsets, values, keys = chunks[0].column(0).to_numpy(), chunks[0].column(1), chunks[0].column(2)
    start = 0
    for end in range(1, len(table) + 1):
        if end == len(table) or (topics[end], partitions[end]) != (topics[start], partitions[start]):
            count = end - start
            place = topics[start], partitions[start]
            yield place, offsets[start:end], values.slice(start, count), keys.slice(start, count)
            start = end
