"""Java is found, and judged by its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UsageError
from penstock.embedded.java import java

if TYPE_CHECKING:
    from pathlib import Path


def test_no_java_is_told_with_the_command_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="no Java on this machine") as raised:
        java()

    assert raised.value.hint == "type: sudo apt-get install -y default-jre-headless"
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(("said", "release"), [("11.0.22", 11), ("1.8.0_402", 8)])
def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, release: int) -> None:
    program = _write_java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UsageError, match=f"{program} is Java {release}; Spark and Kafka need 17 or newer"):
        java()


@pytest.mark.parametrize("said", ["17", "17.0.15", "25.0.1"])
def test_a_java_of_17_or_newer_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str) -> None:
    program = _write_java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert java() == str(program)


def test_the_path_is_searched_where_java_home_leads_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _write_java(tmp_path, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(program.parent))

    assert java() == str(program)


def _write_java(home: Path, version: str) -> Path:
    """A program that answers as Java of that version does."""
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program
