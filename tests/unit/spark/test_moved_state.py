"""A state that was moved names the folder in which it stands, and one that a power cut hit has nothing empty."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import PositionError, UnavailableError
from penstock.spark.moved_state import settle_state

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "_stateSchema/default/0_14f5687c-2c44-4a42-bd80-90133ce22db5"


def metadata(home: str, operator: int) -> str:
    """What Spark writes."""
    stores = [
        {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": 4,
            "stateSchemaFilePaths": [f"file:{home}/state/{operator}/{SCHEMA}"],
        }
    ]
    return (
        f"v2\n{json.dumps({'operatorInfo': {'operatorId': operator}, 'stateStoreInfo': stores}, separators=(',', ':'))}"
    )


def write(checkpoint: Path, operator: int, text: str) -> Path:
    file = checkpoint / "state" / str(operator) / "_metadata" / "v2" / "0"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.with_name(".0.crc").write_text("crc")
    return file


def test_a_moved_state_names_its_new_folder_and_lacks_sums_of_the_old_one(tmp_path: Path) -> None:
    checkpoint = tmp_path / "state" / "a b"
    files = [write(checkpoint, operator, metadata("/old/state/1", operator)) for operator in (0, 1)]

    settle_state(checkpoint)

    assert [file.read_text() for file in files] == [metadata(str(checkpoint), operator) for operator in (0, 1)]
    assert not list(checkpoint.rglob("*.crc"))


def test_notes_of_micro_batches_that_a_power_cut_left_empty_are_gone(tmp_path: Path) -> None:
    for name, text in (("offsets/7", "v1"), ("offsets/8", ""), ("offsets/.8.crc", ""), ("commits/7", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    settle_state(tmp_path)

    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()] == ["offsets/7"]


def test_a_state_that_was_not_moved_is_left_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, 0, metadata(str(tmp_path), 0))
    before = file.stat().st_ino

    settle_state(tmp_path)

    assert file.stat().st_ino == before
    assert file.with_name(".0.crc").exists()


def test_a_state_that_was_not_begun_is_none_to_settle(tmp_path: Path) -> None:
    settle_state(tmp_path / "none")

    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v2\n",
        "v2\n[]",
        "v3\n" + metadata("/old", 0).partition("\n")[2],
        'v2\n{"a": 1}',
        'v2\n{"stateStoreInfo": [{"stateSchemaFilePaths": [1]}]}',
        'v2\n{"stateStoreInfo": [{"stateSchemaFilePaths": ["file:/elsewhere/a"]}]}',
    ],
)
def test_files_of_another_form_are_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, 0, text)

    with pytest.raises(PositionError, match="not as Spark writes it") as refused:
        settle_state(tmp_path)

    assert file.read_text() == text
    assert f"remove {tmp_path}" in refused.value.hint


def test_a_file_that_is_no_text_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, 0, "").write_bytes(b"v2\n\xff")

    with pytest.raises(PositionError, match="not as Spark writes it"):
        settle_state(tmp_path)


def test_a_file_that_cannot_be_written_is_no_reason_to_remove_the_state(tmp_path: Path) -> None:
    file = write(tmp_path, 0, metadata("/old", 0))
    # Root may write to whatever is read-only.
    file.with_name(".0.part").mkdir()

    with pytest.raises(UnavailableError, match="cannot be read and written anew: Is a directory") as refused:
        settle_state(tmp_path)

    assert "remove" not in refused.value.hint
    assert file.read_text() == metadata("/old", 0)
