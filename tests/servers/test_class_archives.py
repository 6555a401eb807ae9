"""Archives of classes: recorded whole or not at all, and missed by nobody."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.embedded.class_archive import ClassArchive, kafka_archive
from penstock.embedded.jars import JarSet, jar_directory
from penstock.embedded.java import java
from penstock.embedded.kafka import start_kafka


def archive_in(directory: Path) -> ClassArchive:
    return ClassArchive("java", jar_directory(JarSet.KAFKA_BROKER), directory)


def run_java(options: tuple[str, ...]) -> str:
    """Run a JVM to its end; what it says."""
    ended = subprocess.run([java(), *options, "-version"], capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def test_what_was_recorded_is_used(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "classes")
    assert archive.options() == ()

    with archive.recording() as options:
        run_java(options)

    assert [file.name for file in archive.directory.iterdir()] == [archive.file.name]
    assert f"-XX:SharedArchiveFile={archive.file}" in archive.options()
    assert "version" in run_java(archive.options())


def test_a_recording_that_fails_leaves_nothing(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "classes")

    with pytest.raises(subprocess.CalledProcessError), archive.recording() as options:
        run_java((*options, "-no-such-option"))

    assert archive.options() == ()
    assert list(archive.directory.iterdir()) == []


def test_a_jvm_that_cannot_use_an_archive_does_without(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.file.write_bytes(b"no archive")

    said = run_java(archive.options())

    assert "version" in said
    assert "warning" not in said


@pytest.mark.nightly
def test_a_broker_maps_its_classes(tmp_path: Path) -> None:
    if not kafka_archive().options():
        pytest.skip("this machine could not record Kafka's classes: make setup says why")
    with start_kafka(tmp_path / "kafka") as broker:
        maps = Path("/proc", str(broker.pid), "maps").read_text()
        assert str(kafka_archive().file) in maps
