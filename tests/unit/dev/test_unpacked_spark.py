"""Spark's home with PySpark as files: made once, by whoever comes first, and done without where it cannot be made."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.embedded.jars import spark_home
from penstock.embedded.unpacked_spark import unpacked_spark_home

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment in which nobody has made a home."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_a_home_has_what_sparks_own_has_and_a_package_in_place_of_an_archive(prefix: Path) -> None:
    home = unpacked_spark_home()

    assert home.parent == prefix / "share" / "penstock"
    assert (home / "bin" / "spark-submit").samefile(spark_home() / "bin" / "spark-submit")
    assert (home / "jars").samefile(spark_home() / "jars")
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark").samefile(spark_home())
    assert home.stat().st_mode & 0o777 == 0o755


def test_a_home_is_made_once_by_all_who_want_it_at_the_same_time(prefix: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: unpacked_spark_home(), range(32)))

    assert homes == set((prefix / "share" / "penstock").iterdir())
    assert len(homes) == 1


def test_where_no_home_can_be_made_sparks_own_is_used(prefix: Path) -> None:
    (prefix / "share").write_text("no directory")

    assert unpacked_spark_home() == spark_home()
