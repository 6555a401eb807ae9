"""Writing a file again that is gone, from the messages that its batch names."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError, SinkError
from penstock.core.file_formats import FileFormat, render_as
from penstock.core.files import file_rows
from penstock.links.objects.decoding import RangeDecoder
from penstock.links.objects.plan import TopicRange

if TYPE_CHECKING:
    from penstock.core.batches import Batch
    from penstock.core.changes import MessageFormat
    from penstock.links.objects.decoding import Stretch
    from penstock.ports.registry import Registry
    from penstock.ports.topics import TopicLog

_HINT = "restore the file"


def render_again(
    batch: Batch,
    log: TopicLog,
    registry: Registry,
    format_: MessageFormat = "avro",
    timelines: tuple[tuple[int, int], ...] = ((0, 0),),
) -> bytes:
    """Return the file of `batch`, byte for byte as it was, from messages of `format_`.

    `timelines` are the offsets at which timelines begin in its partition, each with its timeline.

    Raises SinkError where other bytes come of its messages, by another release or
    library; PositionError where they are not in the topic any more.
    """
    start, end = batch.start_offset, batch.end_offset
    place = batch.topic, batch.partition
    if log.ends([place]).get(place, 0) < end:
        message = f"topic {batch.topic}/{batch.partition} does not reach to {end} any more"
        raise PositionError(message, _HINT)
    given = TopicRange(
        batch.source, str(batch.table), *place, start, start, end, (), timelines=timelines, format=format_
    )
    decoder = RangeDecoder(given, registry)
    for _, fetched in log.read_together({place: (start, end)}, batch.size_bytes << 20):
        decoder.add(fetched)
    stretches = decoder.finish()
    if decoder.stopped is not None:
        raise decoder.stopped
    for stretch in stretches:
        content = _rendered(batch, stretch)
        if content is not None:
            return content
    message = (
        f"the messages {start} to {end} of {batch.topic}/{batch.partition} make another file than {batch.path} was"
    )
    raise SinkError(message, _HINT)


def _rendered(batch: Batch, stretch: Stretch) -> bytes | None:
    """Return the file if it is this one's."""
    if stretch.schema_id != batch.schema_id:
        return None
    rows = file_rows(stretch.schema, stretch.changes, stretch.offsets)
    format_ = FileFormat(
        "csv" if batch.format == "csv" else "parquet", "gzip" if batch.compression == "gzip" else "zstd"
    )
    content = render_as(format_, stretch.schema, rows).content
    is_same = len(content) == batch.size_bytes and batch.crc32 in {None, zlib.crc32(content)}
    return content if is_same else None
