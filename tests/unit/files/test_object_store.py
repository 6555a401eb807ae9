"""Files on a local folder are there whole or not at all."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.errors import SinkError, UnavailableError, UsageError


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(ObjectsSpec((tmp_path / "a folder" / "objects").as_uri()))


def test_what_was_put_is_got_again_and_replaced_by_the_next(objects: Objects) -> None:
    objects.put("shop/users/0/1.parquet", b"first")
    objects.put("shop/users/0/1.parquet", b"second")

    assert objects.get("shop/users/0/1.parquet") == b"second"


def test_a_file_and_the_folders_that_name_it_are_on_the_disk_when_it_is_written(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr("os.fsync", lambda number: flushed.append(str(Path(f"/proc/self/fd/{number}").readlink())))

    objects.put("shop/users/1.parquet", b"first")

    root = tmp_path / "a folder" / "objects"
    assert flushed == [str(root / each) for each in ("shop/users/1.parquet", "shop/users", "shop", "")]


def test_a_large_file_comes_in_pieces_that_are_much_smaller(objects: Objects) -> None:
    content = bytes(range(256)) * 65_536
    objects.put("large", content)

    pieces = list(objects.pieces("large"))

    assert b"".join(pieces) == content
    assert max(map(len, pieces)) < len(content) // 4
    with pytest.raises(SinkError, match="cannot read small at file"):
        list(objects.pieces("small"))


def test_an_empty_file_is_a_file(objects: Objects) -> None:
    objects.put("empty", b"")

    assert objects.exists("empty")
    assert objects.get("empty") == b""


def test_a_file_that_is_not_there_is_named(objects: Objects) -> None:
    assert not objects.exists("shop/users/0/2.parquet")
    with pytest.raises(SinkError, match=r"cannot read shop/users/0/2\.parquet at file://.*objects"):
        objects.get("shop/users/0/2.parquet")


def test_a_folder_lists_its_files_and_not_those_of_a_longer_name(objects: Objects) -> None:
    for key in ("shop/users/0/2", "shop/users/0/1", "shop/users_old/0/1", "other/1"):
        objects.put(key, b"x")

    assert objects.list("shop/users") == ["shop/users/0/1", "shop/users/0/2"]
    assert objects.list("nothing") == []


def test_a_key_is_kept_as_it_is_written(objects: Objects) -> None:
    key = "shop/a%2Fb/ü 1.parquet"
    objects.put(key, b"x")

    assert objects.list("shop") == [key]
    path = objects.local_path(key)
    assert path is not None
    with open(path, "rb") as file:  # noqa: PTH123 - the path is a text
        assert file.read() == b"x"


def test_a_key_cannot_leave_the_folder(objects: Objects) -> None:
    with pytest.raises(SinkError):
        objects.put("../outside", b"x")


def test_a_spec_travels_and_keeps_its_secret_to_itself() -> None:
    spec = ObjectsSpec("s3://bucket/prefix", "http://127.0.0.1:1", secret_access_key="hush")

    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes
    assert "hush" not in repr(spec)


def test_another_kind_of_place_is_refused() -> None:
    with pytest.raises(UsageError, match="ftp://host/files"):
        open_objects(ObjectsSpec("ftp://host/files"))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(SinkError, match="cannot open files"):
        open_objects(ObjectsSpec((tmp_path / "file" / "objects").as_uri()))


def test_an_s3_server_that_is_away_is_worth_another_try() -> None:
    spec = ObjectsSpec(
        "s3://bucket/prefix", "http://127.0.0.1:1", access_key_id="a", secret_access_key="b", timeout_seconds=2.0
    )
    store = open_objects(spec)

    assert store.local_path("x") is None
    with pytest.raises(UnavailableError, match="cannot read x at s3://bucket/prefix"):
        store.get("x")


FILL_THE_DISK = """
import resource, signal, sys
from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import SinkError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
objects = open_objects(ObjectsSpec(sys.argv[1]))
objects.put("small", b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for key in ("small", "new"):
    try:
        objects.put(key, bytes(1 << 20))
    except SinkError as error:
        print(error.message)
print(objects.list(""), objects.get("small"))
"""


def test_a_file_that_could_not_be_written_whole_leaves_what_was_there(tmp_path: Path) -> None:
    """The limit of a file's size stands in for a full disk: the write fails half-way."""
    folder = (tmp_path / "objects").as_uri()

    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, folder], capture_output=True, text=True, check=True, timeout=60
    )

    *refused, left = done.stdout.splitlines()
    assert [line.partition(" at ")[0] for line in refused] == ["cannot write small", "cannot write new"]
    assert left == "['small'] b'old'"
    assert [path.name for path in (tmp_path / "objects").iterdir()] == ["small"]
