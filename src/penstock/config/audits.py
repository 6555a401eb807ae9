"""What a pipeline's file may say of its audits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from penstock.config.columns import ColumnPattern, as_list
from penstock.config.rules import EnvironmentName, TableList  # noqa: TC001 - pydantic reads them from annotations
from penstock.config.spec import Port, Positive, Spec, Text
from penstock.core.audit.minhash import HASHES_MAX
from penstock.core.patterns import TablePatterns
from penstock.core.transforms.column_patterns import ColumnPatterns

if TYPE_CHECKING:
    from penstock.core.tables import TableId

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PERIOD = re.compile(r"([1-9]\d{0,5})([smhd])")
_PERIOD_SECONDS_MIN, _PERIOD_SECONDS_MAX = 60, 90 * 86_400


def read_period(said: object) -> object:
    """Read a period as `24h` says it, in seconds."""
    found = _PERIOD.fullmatch(said) if isinstance(said, str) else None
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not _PERIOD_SECONDS_MIN <= seconds <= _PERIOD_SECONDS_MAX:
        text = "should be a whole number and a unit, from 60s or 1m to 90d: 30m, 24h, 7d"
        raise ValueError(text)
    return seconds


def _check_name(table: str) -> str:
    schema, _, name = table.partition(".")
    if not schema or not name or set(table) & set("*?!"):
        text = "should be one table, written schema.table: a condition is on its columns"
        raise ValueError(text)
    return table


ConditionedTable: TypeAlias = Annotated[str, AfterValidator(_check_name)]


class AuditReplicaSpec(Spec):
    """Where a replica of an audit's source is. All else is as the source has it, `port` too if it is missing."""

    host: Text
    port: Port | None = None


class AuditSpec(Spec):
    """A source's tables, or those that `tables` matches too, compared with a sink that a link carries them to.

    An audit whose tables score less than `threshold` fails; with 1, so does any
    that finds a row that differs. Tables are cut in partitions of about
    `partition_size` rows (None: 10,000, or fewer where rows are wide), of each of
    which `hashes` MinHash values are taken. Columns
    that `exclude_columns` match are not compared. A target that has not caught up
    in `wait_seconds` is said to lag. Of a table at most `rows_max` rows are named.

    With `every` the running pipeline audits by itself, once in so many seconds, and
    tells the URL that the environment variable `webhook_env` holds when a table
    scores below. The source ends a query that takes longer than `query_seconds`.

    Of tables that `where` names only the rows that a condition in the source's SQL
    is true of are compared. Floats may differ by the share `float_tolerance`. With
    `partitions_per_second` tables are read no faster than that. After `seconds_max`
    the audit ends; its next run begins with the tables that it did not reach.

    With `replica` the source's rows are read there, once it has all that the source has;
    `wait_seconds` counts for that, too.
    """

    source: Text
    sink: Text
    tables: TableList = ("*.*",)
    threshold: Annotated[float, Field(strict=True, ge=0, le=1)] = 1.0
    hashes: Annotated[int, Field(strict=True, ge=1, le=HASHES_MAX)] = 16
    partition_size: Positive | None = None
    exclude_columns: Annotated[tuple[ColumnPattern, ...], BeforeValidator(as_list)] = ()
    wait_seconds: Annotated[float, Field(strict=True, ge=0, le=86_400)] = 60.0
    rows_max: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    every: Annotated[int | None, BeforeValidator(read_period)] = None
    webhook_env: EnvironmentName | None = None
    query_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] = 3600
    where: dict[ConditionedTable, Text] = Field(default_factory=dict)
    float_tolerance: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    partitions_per_second: Positive | None = None
    seconds_max: Annotated[int | None, Field(strict=True, ge=1, le=604_800)] = None

    replica: AuditReplicaSpec | None = None

    @property
    def patterns(self) -> TablePatterns:
        """Which of the source's tables are wanted."""
        return TablePatterns(self.tables)

    @property
    def excluded(self) -> ColumnPatterns:
        """Which columns are not compared."""
        return ColumnPatterns(self.exclude_columns)

    def condition(self, table: TableId) -> str:
        """Which rows of a table are compared, in the source's SQL; "" for all."""
        return self.where.get(str(table), "")
