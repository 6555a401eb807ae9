"""Where private trackers keep their data: that of a pipeline's only source stays where it was when others come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.config.load import parse
from penstock.core.errors import UsageError
from penstock.embedded.tracker import examine_tracker

if TYPE_CHECKING:
    from pathlib import Path


def pipeline(home: Path, *names: str) -> str:
    """The kind of each source is remembered, so none is asked."""
    sources = "".join(
        f"  - {{name: {name}, kind: mysql, host: 127.0.0.1, port: 1, user: u, password_env: P, tables: [{name}.*]}}\n"
        for name in names
    )
    return f"pipeline: shop\nhome: {home}\nsources:\n{sources}"


def begin(folder: Path, owner: str | None) -> None:
    """What a first start leaves behind."""
    folder.mkdir(parents=True)
    (folder / "initialised").touch()
    if owner is not None:
        (folder / "source").write_text(owner)


def test_the_tracker_of_what_was_the_only_source_stays_its_own_whatever_its_place_in_the_file(tmp_path: Path) -> None:
    spec = parse(pipeline(tmp_path, "store", "shop"), "shop.yaml", tmp_path)
    begin(tmp_path / "tracker", "shop")
    begin(tmp_path / "trackers" / "store", "store")

    told = [examine_tracker(spec, source) for source in spec.mysql_sources]

    assert all(each.startswith("MariaDB") for each in told)


def test_a_tracker_of_an_older_release_is_given_to_no_source_by_chance(tmp_path: Path) -> None:
    spec = parse(pipeline(tmp_path, "shop", "store"), "shop.yaml", tmp_path)
    begin(tmp_path / "tracker", None)

    with pytest.raises(UsageError, match=r"which source the schema tracker in .* belongs to is not known") as caught:
        examine_tracker(spec, spec.mysql_sources[1])

    assert "run the pipeline once with the one source that it had" in caught.value.hint
