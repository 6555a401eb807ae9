"""The first data of a server is made once on a machine, and copied from then on without what is a server's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from penstock.embedded.initial_data import begin_data

if TYPE_CHECKING:
    from pathlib import Path


class _Maker:
    """Makes data of one table, a key and an identity, and counts how often it was asked."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.made = 0

    def __call__(self) -> None:
        self.made += 1
        (self.data / "mysql").mkdir(parents=True)
        (self.data / "mysql" / "global_priv.MAI").write_bytes(b"table" + bytes(3 << 20) + b"end")
        (self.data / "auto.cnf").write_text("identity")
        (self.data / "ca-key.pem").write_text("secret")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "mariadbd"
    file.write_text("program")
    return file


def test_a_second_server_gets_a_copy_without_keys_and_identity(tmp_path: Path, program: Path) -> None:
    first, second = _Maker(tmp_path / "first"), _Maker(tmp_path / "second")

    begin_data(first.data, program, ["settings"], first)
    begin_data(second.data, program, ["settings"], second)

    assert (first.made, second.made) == (1, 0)
    assert [str(each.relative_to(second.data)) for each in second.data.rglob("*") if each.is_file()] == [
        "mysql/global_priv.MAI"
    ]
    table = "mysql/global_priv.MAI"
    assert (second.data / table).read_bytes() == (first.data / table).read_bytes()


@pytest.mark.parametrize("change", ["settings", "program"])
def test_another_program_or_other_settings_make_data_of_their_own(tmp_path: Path, program: Path, change: str) -> None:
    first, second = _Maker(tmp_path / "first"), _Maker(tmp_path / "second")
    begin_data(first.data, program, ["settings"], first)
    if change == "program":
        os.utime(program, (1, 1))

    begin_data(second.data, program, ["settings" if change == "program" else "others"], second)

    assert second.made == 1


def test_what_fails_half_way_is_never_copied(tmp_path: Path, program: Path) -> None:
    first, second = _Maker(tmp_path / "first"), _Maker(tmp_path / "second")

    def fail() -> None:
        first()
        message = "the disk is full"
        raise OSError(message)

    with pytest.raises(OSError, match="disk is full"):
        begin_data(first.data, program, ["settings"], fail)
    begin_data(second.data, program, ["settings"], second)

    assert second.made == 1


def test_without_a_cache_data_is_made_each_time(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    servers = [_Maker(tmp_path / name) for name in ("first", "second")]

    for server in servers:
        begin_data(server.data, program, ["settings"], server)

    assert [server.made for server in servers] == [1, 1]
