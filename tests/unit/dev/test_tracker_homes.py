"""Where private trackers keep their data: that of a pipeline's only source stays where it was when others come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.config.load import parse
from penstock.core.errors import UsageError
from penstock.embedded.tracker import examine_tracker, take_home

if TYPE_CHECKING:
    from pathlib import Path


def pipeline(home: Path, *names: str, name: str = "shop") -> str:
    """The kind of each source is remembered, so none is asked."""
    sources = "".join(
        f"  - {{name: {each}, kind: mysql, host: 127.0.0.1, port: 1, user: u, password_env: P, tables: [{each}.*]}}\n"
        for each in names
    )
    return f"pipeline: {name}\nhome: {home}\nsources:\n{sources}"


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


def taken(home: Path, *names: str, name: str = "shop") -> dict[str, str]:
    """Take homes for the trackers of these sources of one file; return where they are below `home`."""
    spec = parse(pipeline(home, *names, name=name), "shop.yaml", home)
    return {each.name: str(take_home(spec, each, "mariadb").relative_to(home)) for each in spec.mysql_sources}


def test_a_source_that_is_left_out_for_a_while_keeps_its_tracker_and_so_does_the_other(tmp_path: Path) -> None:
    alone = taken(tmp_path, "a")
    both = taken(tmp_path, "a", "b")

    without = taken(tmp_path, "b")

    assert (alone, both) == ({"a": "tracker"}, {"a": "tracker", "b": "trackers/b"})
    assert without == {"b": "trackers/b"}
    assert taken(tmp_path, "a", "b") == both


def test_a_tracker_of_an_older_release_is_that_of_the_only_source(tmp_path: Path) -> None:
    begin(tmp_path / "tracker", None)

    assert taken(tmp_path, "shop") == {"shop": "tracker"}
    assert taken(tmp_path, "shop", "store") == {"shop": "tracker", "store": "trackers/store"}


def test_the_tracker_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    taken(tmp_path, "shopdb")

    with pytest.raises(UsageError, match=r"the schema tracker in .*tracker is that of the pipeline shop") as caught:
        taken(tmp_path, "shopdb", name="shop2")

    assert "a `home` of its own" in caught.value.hint
    assert taken(tmp_path, "shopdb") == {"shopdb": "tracker"}


def test_a_tracker_that_does_not_say_of_which_pipeline_it_is_belongs_to_the_one_that_starts_it(tmp_path: Path) -> None:
    begin(tmp_path / "tracker", "shopdb")

    assert taken(tmp_path, "shopdb") == {"shopdb": "tracker"}
    with pytest.raises(UsageError, match="is that of the pipeline shop"):
        taken(tmp_path, "shopdb", name="shop2")
