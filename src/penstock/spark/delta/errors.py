"""What Spark and Delta say went wrong, in words of ours."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.core.errors import ConflictError, RefusedStatementError, SinkError
from penstock.core.warehouse.columns import REFRESH_OR_ANEW

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT\w*|DELTA_(METADATA|PROTOCOL)_CHANGED|Concurrent\w+Exception|(Metadata|Protocol)ChangedException"
)
_OF_THE_TABLE = re.compile(
    r"\[(DELTA_\w+|FAILED_READ_FILE\.FILE_NOT_EXIST|CAST_\w+|NUMERIC_VALUE_OUT_OF_RANGE|ARITHMETIC_OVERFLOW|"
    r"UNRESOLVED_COLUMN|DATATYPE_MISMATCH)\b"
)
"""Classes of errors about one table: its log, its files, its protocol and constraints, values that do not fit."""
_DISK_IS_FULL = "No space left on device"
_NO_FILE_SYSTEM = re.compile(r"S3AFileSystem not found|No FileSystem for scheme")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise SinkError or ConflictError, which say that `what` failed, in place of Spark's own errors.

    What is about the table alone is a RefusedStatementError.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise _explain(what, str(error)) from error


def _explain(what: str, printed: str) -> SinkError | ConflictError:
    if _CONFLICT.search(printed):
        return ConflictError(f"cannot {what}: another writer changed the table meanwhile", "it is tried again")
    if _DISK_IS_FULL in printed:
        hint = "free some space: nothing was committed half, and the next try goes on from here"
        return SinkError(f"cannot {what}: a disk is full", hint)
    if _NO_FILE_SYSTEM.search(printed):
        hint = (
            "Spark needs Hadoop's library for that store, which Penstock brings for S3 alone: name it in the file "
            "under spark.conf as spark.jars.packages"
        )
        return SinkError(f"cannot {what}: Spark cannot reach a store of that kind", hint)
    reason = " ".join(printed.partition("\n\tat ")[0].split())[:600]
    if _OF_THE_TABLE.search(printed):
        hint = f"correct what the error names; or delete the table's folder, then {REFRESH_OR_ANEW}"
        return RefusedStatementError(f"cannot {what}: {reason}", hint)
    return SinkError(f"cannot {what}: {reason}", "see the table's folder and its log; nothing was committed half")
