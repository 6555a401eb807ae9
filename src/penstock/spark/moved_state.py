"""A state that was moved to another folder: Spark notes in it where it stands, and would look for it there.

Source: Spark's OperatorStateMetadataV2, `state/OPERATOR/_metadata/v2/BATCH`: a line with
the version, and JSON whose `stateSchemaFilePaths` are absolute. Nothing else in the
checkpoint of a join is: its source notes offsets of Kafka, and RocksDB's files stand
beside each other.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = "v2"


def settle_state(checkpoint: Path) -> None:
    """Have the files of a checkpoint name the folder in which they stand now. To be called while nobody uses it.

    Raises PositionError for files that are not as Spark writes them.
    """
    for file in sorted(checkpoint.glob("state/*/_metadata/v2/*")):
        if file.name.isdigit():
            _settle(checkpoint, file)


def _settle(checkpoint: Path, file: Path) -> None:
    version, _, text = file.read_text(encoding="utf-8").partition("\n")
    try:
        metadata = json.loads(text)
        stores = metadata["stateStoreInfo"]
        before = [store["stateSchemaFilePaths"] for store in stores]
        after = [[_here(checkpoint, path) for path in paths] for paths in before]
    except (ValueError, TypeError, KeyError) as error:
        raise _unknown(checkpoint, file, str(error)) from error
    if version != _VERSION:
        raise _unknown(checkpoint, file, f"its version is {version}")
    if after == before:
        return
    for store, paths in zip(stores, after, strict=True):
        store["stateSchemaFilePaths"] = paths
    # The sum of what was there before; Hadoop does without one.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_text(f"{version}\n{json.dumps(metadata, separators=(',', ':'))}", encoding="utf-8")
    part.replace(file)


def _here(checkpoint: Path, path: str) -> str:
    """Where a file of the state that was written down as `path` stands now, as Spark writes it."""
    behind = path.rpartition("/state/")[2]
    # Spark does not follow links either.
    return f"file:{os.path.abspath(checkpoint)}/state/{behind}"  # noqa: PTH100 - Path.resolve follows links


def _unknown(checkpoint: Path, file: Path, why: str) -> PositionError:
    message = f"{file} is not as Spark writes it: {why}"
    return PositionError(message, f"remove {checkpoint}: the join is made again from its topics")
