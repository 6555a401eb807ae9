"""Tables that are not read from their topics any more are told with what brings them back."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.unit.config.test_joins import PIPELINE

from penstock.adapters.state.store import open_state
from penstock.config.load import parse
from penstock.core.topic_fingerprints import bring_back
from penstock.links.objects.record import ObjectsRecord, StoppedReading
from penstock.wiring.stopped_readings import StoppedReadings

if TYPE_CHECKING:
    from pathlib import Path

JOIN = """\
join:
  - {topic: shop.user_review, join_keys: [biz_id]}
  - {topic: shop.business, join_keys: [business_id], aliases: [{from: business_id, to: biz_id}]}
output: {namespace: example, source: reviews, pkey: [review_id]}
"""


@pytest.mark.parametrize(
    ("source", "table", "hint"),
    [
        ("reviews", "example.reviews", "penstock joinery rebuild FILE reviews --empty"),
        ("shopdb", "shop.business", "penstock snapshot FILE shop.business --full-refresh"),
    ],
)
def test_a_stopped_table_is_told_with_what_brings_it_back(tmp_path: Path, source: str, table: str, hint: str) -> None:
    (tmp_path / "business_review.yaml").write_text(JOIN)
    spec = parse(PIPELINE + f"home: {tmp_path / 'home'}\n", "shop.yaml", tmp_path)
    why = StoppedReading(source, table, "a foreign message", bring_back(table))

    with closing(open_state(f"sqlite:///{tmp_path}/state.db", "shop")) as state:
        StoppedReadings(spec, "objects", state).tell(ObjectsRecord(stopped={("topic", 0): why}))
        (told,) = state.tables()

    assert (told.table, told.error) == (table, "a foreign message")
    assert hint in told.hint
