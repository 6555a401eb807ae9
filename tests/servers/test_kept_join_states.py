"""States of joins that earlier forms of Penstock made are gone on with, whatever of the file changes.

They are kept in `kept_joins`; its README says how the next one is made.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.servers.kept_join_case import (
    ROUNDS,
    TABLES,
    KeptJoin,
    fold,
    history_of,
    keep,
    name_topics,
    plan_of,
    read_kept,
    shown,
)

from penstock.config.load import load
from penstock.core.errors import UsageError
from penstock.core.joins.upgrade import REBUILD, fit_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.config.specs import PipelineSpec
    from penstock.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.nightly

KEPT = sorted((Path(__file__).parent / "kept_joins").glob("*.tar.xz"))
KEPT_BYTES_MAX = 300_000
KEEP_AS = "PENSTOCK_KEEP_JOIN_STATE"
ALIAS = ("business_id", "biz_id")
UPGRADES: dict[str, Mapping[str, Any]] = {
    "the file as it was": {},
    "another alias": {"aliases": (ALIAS, ("city", "town"))},
    "a field less": {"exclude": ("name", "city")},
}


@pytest.fixture
def spec(tmp_path: Path, kafka: KafkaBroker, schematizer: str) -> PipelineSpec:
    file = tmp_path / "kept.yaml"
    source = {"name": "db", "kind": "mysql", "host": "127.0.0.1", "user": "nobody", "password_env": "NONE"}
    config = {
        "pipeline": "kept",
        "home": str(tmp_path / "home"),
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
        "schematizer": {"url": schematizer},
        "tracker": {"host": "127.0.0.1", "user": "nobody", "password_env": "NONE"},
        "sources": [source | {"tables": ["shop.*"]}],
    }
    file.write_text(yaml.safe_dump(config))
    return load(file)


def go_on(file: Path, folder: Path, spec: PipelineSpec, session: SparkSession, business: Mapping[str, Any]) -> None:
    """Carry the last round by a kept state and a changed file, and compare with a join without a state."""
    history = read_kept(file, folder)
    place = KeptJoin(spec, session, history)
    name_topics(folder / "state", history.prefix, place.prefix)
    for number in range(ROUNDS):
        place.publish(number)
    fitted = fit_plan(plan_of(business), TABLES[:2], history.made)
    published = shown(place.fresh(plan_of(), ROUNDS - 1), history.made, fitted)

    changes = place.carry(fitted, folder / "state")

    expected = place.fresh(plan_of(business), ROUNDS)
    assert len(expected) > 50
    assert published != expected
    assert fold(published, fitted, changes) == expected


@pytest.mark.parametrize("business", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name.partition(".")[0])
def test_a_kept_state_is_gone_on_with(
    tmp_path: Path, spec: PipelineSpec, spark: SparkSession, file: Path, business: Mapping[str, Any]
) -> None:
    go_on(file, tmp_path / "kept", spec, spark, business)


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name.partition(".")[0])
def test_a_field_that_a_kept_state_was_published_without_takes_a_rebuild(tmp_path: Path, file: Path) -> None:
    history = read_kept(file, tmp_path)

    with pytest.raises(UsageError, match="name was not in the output") as refused:
        fit_plan(plan_of({"exclude": ()}), TABLES[:2], history.made)

    assert refused.value.hint == REBUILD


def test_the_state_of_today_can_be_kept(tmp_path: Path, spec: PipelineSpec, spark: SparkSession) -> None:
    place = KeptJoin(spec, spark, history_of(33))
    for number in range(ROUNDS - 1):
        place.publish(number)
        assert place.carry(plan_of(), tmp_path / "state")

    file = tmp_path / "today.tar.xz"
    keep(place, tmp_path / "state", file)

    assert file.stat().st_size < KEPT_BYTES_MAX
    go_on(file, tmp_path / "kept", spec, spark, UPGRADES["another alias"])
    if KEEP_AS in os.environ:
        shutil.copy(file, os.environ[KEEP_AS])
