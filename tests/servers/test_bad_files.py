"""Files that are missing, cut short or damaged are named, nothing of their load is kept, and the next try succeeds."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import TABLE, schema_change
from tests.servers.test_warehouse_loader import MemoryRegistry

from penstock.adapters.state.store import open_state
from penstock.core.file_formats import PARQUET, FileFormat
from penstock.links.warehouse.load import WarehouseLoader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch

GZIP, ZSTD = FileFormat("csv", "gzip"), FileFormat("csv", "zstd")
CHANGES = [("c", "b", 2), ("c", 'two\nlines, "quoted"', 3), ("c", "d", None)]


def load(place: Place, batches: list[Batch], state_file: Path) -> tuple[int, str]:
    """Load a batch topic with these messages as the link does, from where the target stands.

    Returns how many changes came in, and why the table stopped, "" if it did not.
    """
    topic = list(enumerate(batch.to_json() for batch in batches))
    state = open_state(f"sqlite:///{state_file}", "shop")
    read = lambda start, end: [topic[start:end]]  # noqa: E731 - it is a list
    loader = WarehouseLoader("link", place.open(), MemoryRegistry(), state, lambda _, __: True, read)
    try:
        rows = loader.load(topic[loader.start() :])
        return rows, state.stopped_tables("link").get(str(TABLE), "")
    finally:
        loader.close()
        state.close()


def edited(content: bytes, format_: FileFormat, old: bytes, new: bytes) -> bytes:
    """Change the text of a CSV file, and compress it again."""
    if format_ is GZIP:
        return gzip.compress(gzip.decompress(content).replace(old, new, 1), 1, mtime=0)
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return pa.compress(stream.read().replace(old, new, 1), "zstd", asbytes=True)


BROKEN_ROW = r"line 2 \(row 2\), column qty: 'three' is no int32"


@on_every_target
@pytest.mark.parametrize(
    ("format_", "spoil", "said"),
    [
        (PARQUET, "missing", "cannot read shop/"),
        (GZIP, "cut", "bytes, and its batch message says"),
        (PARQUET, "damaged", "CRC-32 differs"),
        (ZSTD, "row", BROKEN_ROW),
    ],
)
def test_a_bad_file_is_named_and_stops_its_load_until_it_is_mended(
    place: Place, tmp_path: Path, format_: FileFormat, spoil: str, said: str
) -> None:
    good = place.batch(0, [("c", "a", 1)], format_=format_)
    bad = place.batch(1, list(CHANGES), format_=format_)
    whole = place.objects.get(bad.path)
    messages = [schema_change(1), good, bad]
    middle = len(whole) // 2
    match spoil:
        case "missing":
            place.objects.delete([bad.path])
        case "cut":
            place.objects.put(bad.path, whole[:-3])
        case "damaged":
            place.objects.put(bad.path, bytes([*whole[:middle], whole[middle] ^ 1, *whole[middle + 1 :]]))
        case "row":
            place.objects.put(bad.path, edited(whole, format_, b'"",3', b'"",three'))

    rows, stopped = load(place, messages, tmp_path / "state.db")

    assert (rows, bad.path in stopped) == (0, True)
    assert re.search(said, stopped)
    assert place.tables() == (["shop.orders"] if place.defines_ahead else [])
    assert (place.ask("SELECT id FROM shop.orders") if place.defines_ahead else []) == []
    assert (place.open().waiting(), place.open().positions(TABLE)) == ({TABLE: 0}, {})

    place.objects.put(bad.path, whole)

    assert load(place, messages, tmp_path / "state.db") == (4, "")
    assert place.ask("SELECT id, qty FROM shop.orders ORDER BY qty") == [
        ("a", 1),
        ("b", 2),
        (CHANGES[1][1], 3),
        ("d", None),
    ]
    assert (place.open().batch_offset(), place.open().waiting()) == (3, {})


@on_every_target
def test_a_file_with_more_rows_than_its_message_says_stops_its_load(place: Place, tmp_path: Path) -> None:
    told = replace(place.batch(0, list(CHANGES), format_=GZIP), rows=2)

    rows, stopped = load(place, [schema_change(1), told], tmp_path / "state.db")

    assert rows == 0
    assert "it has 3 rows, and its batch message says 2" in stopped
    assert place.open().positions(TABLE) == {}


@on_every_target
def test_files_of_several_formats_are_loaded_together(place: Place, tmp_path: Path) -> None:
    batches = [
        place.batch(0, [("c", "a", 1)]),
        place.batch(1, [("u", "a", 2), ("c", "\\N", None)], format_=GZIP),
        place.batch(3, [("c", "", 3)], format_=ZSTD),
    ]

    loaded = load(place, batches, tmp_path / "state.db")

    assert loaded == (4, "")
    assert place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [("", 3), ("\\N", None), ("a", 2)]


def test_a_hole_among_the_batch_messages_stops_its_table(place: Place, tmp_path: Path) -> None:
    first, _, third = (place.batch(n, [("c", "a", n)], format_=GZIP) for n in range(3))

    rows, stopped = load(place, [first, third], tmp_path / "state.db")

    assert "starts at offset 2, and the target has everything before 1 only" in stopped
    assert (rows, place.tables(), place.open().waiting()) == (0, [], {TABLE: 0})
