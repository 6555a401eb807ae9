"""A state that was moved to another folder, in which Spark notes where it stands, or left by a machine that went down.

Source: Spark's OperatorStateMetadataV2, `state/OPERATOR/_metadata/v2/BATCH`: a line with
the version, and JSON whose `stateSchemaFilePaths` are absolute. Nothing else in the
checkpoint of a join is: its source notes offsets of Kafka, and RocksDB's files stand
beside each other.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError, UnavailableError
from penstock.wiring.whole_files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = "v2"


def settle_state(checkpoint: Path) -> None:
    """Have a checkpoint as Spark reads it. To be called while nobody uses it.

    Its files name the folder in which they stand now, and those are gone that were never written whole.

    Raises PositionError for files that are not as Spark writes them, and UnavailableError where they cannot be had.
    """
    _drop_torn(checkpoint)
    for file in sorted(checkpoint.glob("state/*/_metadata/v2/*")):
        if file.name.isdigit():
            try:
                _settle(checkpoint, file)
            except OSError as error:
                raise _unavailable(checkpoint, file, error) from error
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                message = f"{file} is not as Spark writes it: {error}"
                hint = f"remove {checkpoint}: the join is made again from its topics"
                raise PositionError(message, hint) from error


def _drop_torn(checkpoint: Path) -> None:
    """Remove what a power cut left empty: notes of micro-batches behind the one that was flushed with its state.

    Spark, which fails of them, begins those micro-batches again.
    """
    for file in [*checkpoint.glob("offsets/*"), *checkpoint.glob("commits/*")]:
        try:
            if file.name.isdigit() and not file.stat().st_size:
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                file.unlink()
        except OSError as error:
            raise _unavailable(checkpoint, file, error) from error


def settle_commit(checkpoint: Path, batch: int) -> None:
    """Note that a micro-batch is done, where whoever published it was killed before Spark noted that.

    Its state is written: what was published came of it. Spark reads no state of a micro-batch without that note.
    Source: Spark's CommitLog, version 1. Raises as `settle_state`.
    """
    file = checkpoint / "commits" / str(batch)
    if file.is_file():
        return
    try:
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        write_whole(file, 'v1\n{"nextBatchWatermarkMs":0}')
    except OSError as error:
        raise _unavailable(checkpoint, file, error) from error


def _settle(checkpoint: Path, file: Path) -> None:
    """Raises ValueError, TypeError, KeyError and AttributeError for files of another form."""
    version, _, text = file.read_text(encoding="utf-8").partition("\n")
    metadata = json.loads(text)
    stores = metadata["stateStoreInfo"]
    before = [store["stateSchemaFilePaths"] for store in stores]
    after = [[_here(checkpoint, path) for path in paths] for paths in before]
    if version != _VERSION:
        why = f"its version is {version}"
        raise ValueError(why)
    if after == before:
        return
    for store, paths in zip(stores, after, strict=True):
        store["stateSchemaFilePaths"] = paths
    # The sum of what was there before; Hadoop does without one.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    write_whole(file, f"{version}\n{json.dumps(metadata, separators=(',', ':'))}")


def _unavailable(checkpoint: Path, file: Path, error: OSError) -> UnavailableError:
    message = f"{file} cannot be read and written anew: {error.strerror or error}"
    hint = f"let the user who runs Penstock write to {checkpoint} (`ls -l`), and see that its disk has room"
    return UnavailableError(message, hint)


def _here(checkpoint: Path, path: str) -> str:
    """Where a file of the state that was written down as `path` stands now, as Spark writes it."""
    _, below, behind = path.rpartition("/state/")
    if not below:
        why = f"it names {path}, which is in no folder state/"
        raise ValueError(why)
    # Spark does not follow links either.
    return f"file:{os.path.abspath(checkpoint)}/state/{behind}"  # noqa: PTH100 - Path.resolve follows links
