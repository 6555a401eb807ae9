"""A manifest names the files of a load, all of them, the same way every time and under a name of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.redshift.load_files import write_manifest
from penstock.core.batches import Batch
from penstock.core.csv_dialect import CsvDialect
from penstock.core.tables import TableId
from penstock.core.warehouse.manifest import manifest_key, manifest_written_at, plan_manifest

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("shopdb", TableId("shop", "orders"), "t", 0)
FIRST = Batch(*PLACE, 0, 5, 5, "shop/shopdb/t/0/0-5-1.csv.gz", 120, "csv", 1, (1, 0, 0), (1, 4, 0), 7,
              compression="gzip", dialect=CsvDialect())  # fmt: skip
SECOND = replace(FIRST, start_offset=5, end_offset=9, rows=4, path="shop/shopdb/t/0/5-9-1.csv.gz", size_bytes=90)
SCHEMA_CHANGE = replace(FIRST, rows=0, path="", size_bytes=0, format="", dialect=None)


def test_a_manifest_has_the_form_that_redshift_reads() -> None:
    manifest = plan_manifest("s3://bucket/prefix", [SCHEMA_CHANGE, FIRST, SECOND])

    url = "s3://bucket/prefix/shop/shopdb/t/0"
    assert json.loads(manifest.content) == {
        "entries": [
            {"url": f"{url}/0-5-1.csv.gz", "mandatory": True, "meta": {"content_length": 120}},
            {"url": f"{url}/5-9-1.csv.gz", "mandatory": True, "meta": {"content_length": 90}},
        ]
    }
    assert manifest.rows == 9


def test_the_same_batches_give_the_same_bytes_and_others_do_not() -> None:
    one, again = plan_manifest("s3://b", [FIRST, SECOND]), plan_manifest("s3://b", [FIRST, SECOND])
    other = plan_manifest("s3://b", [SECOND, FIRST])

    assert one == again
    assert one.digest != other.digest


def test_files_that_no_single_copy_reads_are_refused() -> None:
    with pytest.raises(ValueError, match="must be written alike"):
        plan_manifest("s3://b", [FIRST, replace(SECOND, dialect=CsvDialect("\\N1"))])
    with pytest.raises(ValueError, match="must be written alike"):
        plan_manifest("s3://b", [FIRST, replace(SECOND, format="parquet", dialect=None)])


def test_every_attempt_has_a_key_of_its_own_that_says_when_it_was(tmp_path: Path) -> None:
    manifest = plan_manifest("s3://b", [FIRST])
    key = manifest_key("../shop", "a/b", manifest, (1_700_000_000_000, "ff"))
    objects = open_objects(ObjectsSpec(tmp_path.as_uri()))

    urls = {write_manifest(objects, "s3://b", "shop", "wh", [FIRST])[0] for _ in range(3)}

    assert key == f"..%2Fshop/manifests/a%2Fb/1700000000000-{manifest.digest}-ff.json"
    assert manifest_written_at(key) == 1_700_000_000_000
    assert urls == {f"s3://b/{key}" for key in objects.list("shop/manifests/wh")}
    assert (len(urls), {objects.get(key) for key in objects.list("shop")}) == (3, {manifest.content})
