"""The kernel of joins is compiled once, where there is a compiler."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UsageError
from penstock.embedded.join_kernel import ensure_join_kernel, kernel_jar

if TYPE_CHECKING:
    from pathlib import Path


def test_no_compiler_is_told_with_the_command_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="no Java compiler on this machine") as raised:
        ensure_join_kernel()

    assert "sudo apt-get install -y default-jdk-headless" in raised.value.hint
    assert raised.value.exit_code == 2


def test_a_compiled_kernel_is_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = ensure_join_kernel()
    monkeypatch.setenv("PATH", str(tmp_path))

    assert ensure_join_kernel() == jar == kernel_jar()
    assert "io/penstock/join/Kernel.class" in zipfile.ZipFile(jar).namelist()
