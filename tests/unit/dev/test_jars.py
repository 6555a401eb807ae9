"""Pinned jars are exactly the ones that were listed."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from penstock.core.errors import UnavailableError, UsageError
from penstock.embedded import jars
from penstock.embedded.jars import Jar, JarSet, ensure_jars, jar_directory, parse_jar_list, render_ivy_file

if TYPE_CHECKING:
    from pathlib import Path

_JAR = Jar(hashlib.sha256(b"code").hexdigest(), "org.example", "thing_2.13", "1.2")


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of a fetched and verified set. The files' contents are made up."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = jar_directory(JarSet.SPARK_KAFKA)
    directory.mkdir(parents=True)
    stamp = {}
    for jar in _listed(JarSet.SPARK_KAFKA):
        file = directory / jar.file
        file.write_bytes(b"code")
        stamp[jar.file] = [file.stat().st_size, file.stat().st_mtime_ns]
    (directory / "verified.json").write_text(json.dumps(stamp))
    return directory


def test_a_list_names_each_jar_with_its_checksum() -> None:
    text = f"{_JAR.sha256}  org.example:thing_2.13:1.2\n"

    assert parse_jar_list(text) == (_JAR,)
    assert _JAR.file == "thing_2.13-1.2.jar"


@pytest.mark.parametrize("jar_set", JarSet)
def test_every_set_pins_each_jar_once(jar_set: JarSet) -> None:
    listed = _listed(jar_set)

    assert len({jar.file for jar in listed}) == len(listed) > 0
    assert all(len(jar.sha256) == 64 for jar in listed)


def test_ivy_is_asked_for_the_listed_jars_and_for_nothing_they_depend_on() -> None:
    module = ET.fromstring(render_ivy_file(JarSet.SPARK_KAFKA, [_JAR]))  # noqa: S314 - we wrote it ourselves

    assert [dependency.attrib for dependency in module.iter("dependency")] == [
        {"org": "org.example", "name": "thing_2.13", "rev": "1.2", "transitive": "false"}
    ]


def test_a_fetched_set_is_used_as_it_is(cached: Path) -> None:
    assert ensure_jars(JarSet.SPARK_KAFKA) == tuple(cached / jar.file for jar in _listed(JarSet.SPARK_KAFKA))


def test_a_jar_that_changed_in_the_cache_is_named(cached: Path) -> None:
    changed = cached / _listed(JarSet.SPARK_KAFKA)[0].file
    os.utime(changed, ns=(0, 0))

    with pytest.raises(UsageError, match=f"{changed.name} is missing or has changed") as raised:
        ensure_jars(JarSet.SPARK_KAFKA)

    assert f"rm -r {cached}" in raised.value.hint


def test_a_jar_that_is_missing_in_the_cache_is_named(cached: Path) -> None:
    missing = cached / _listed(JarSet.SPARK_KAFKA)[-1].file
    missing.unlink()

    with pytest.raises(UsageError, match=f"{missing.name} is missing or has changed"):
        ensure_jars(JarSet.SPARK_KAFKA)


def test_jars_of_a_copied_cache_are_known_by_their_bytes_and_not_hashed_twice(tmp_path: Path) -> None:
    jar = Jar(hashlib.sha256(b"bytes").hexdigest(), "org", "name", "1")
    file, stamp = tmp_path / jar.file, tmp_path / jars._STAMP
    file.write_bytes(b"bytes")
    stamp.write_text(json.dumps({jar.file: [5, 0]}))

    jars._verify_stamp(tmp_path, [jar])

    assert json.loads(stamp.read_text()) == {jar.file: jars._fingerprint(file)}


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(UsageError, match=r"the cache .* cannot be written"):
        ensure_jars(JarSet.SPARK_KAFKA)


def test_a_jar_that_arrives_with_other_bytes_is_refused(tmp_path: Path) -> None:
    arrived = tmp_path / _JAR.file
    arrived.write_bytes(b"other")

    with pytest.raises(UsageError, match="is not the expected one"):
        jars._verify_checksum(arrived, _JAR)


def test_a_jar_that_does_not_arrive_is_worth_another_try(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="did not arrive"):
        jars._verify_checksum(tmp_path / _JAR.file, _JAR)


def _listed(jar_set: JarSet) -> tuple[Jar, ...]:
    return parse_jar_list(jars._list_file(jar_set).read_text())
