"""What a pipeline's file may say of its audits."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from penstock.config.columns import ColumnPattern, as_list
from penstock.config.rules import TableList  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.spec import Positive, Spec, Text
from penstock.core.audit.minhash import HASHES_MAX
from penstock.core.patterns import TablePatterns
from penstock.core.transforms.column_patterns import ColumnPatterns


def _refuse_schedule(_value: object) -> None:
    text = "audits by schedule are not in this release: run penstock audit FILE by cron or the like"
    raise ValueError(text)


class AuditSpec(Spec):
    """A source's tables, or those that `tables` matches too, compared with a sink that a link carries them to.

    An audit whose tables score less than `threshold` fails; with 1, so does any
    that finds a row that differs. Tables are cut in partitions of about
    `partition_size` rows, of each of which `hashes` MinHash values are taken. Columns
    that `exclude_columns` match are not compared. A target that has not caught up
    in `wait_seconds` is said to lag. Of a table at most `rows_max` rows are named.
    """

    source: Text
    sink: Text
    tables: TableList = ("*.*",)
    threshold: Annotated[float, Field(ge=0, le=1)] = 1.0
    hashes: Annotated[int, Field(strict=True, ge=1, le=HASHES_MAX)] = 16
    partition_size: Positive = 10_000
    exclude_columns: Annotated[tuple[ColumnPattern, ...], BeforeValidator(as_list)] = ()
    wait_seconds: Annotated[float, Field(strict=True, ge=0, le=86_400)] = 60.0
    rows_max: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    every: Annotated[None, BeforeValidator(_refuse_schedule)] = None

    @property
    def patterns(self) -> TablePatterns:
        """Which of the source's tables are wanted."""
        return TablePatterns(self.tables)

    @property
    def excluded(self) -> ColumnPatterns:
        """Which columns are not compared."""
        return ColumnPatterns(self.exclude_columns)
