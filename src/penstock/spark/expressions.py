"""Columns that are Spark SQL expressions, evaluated by Spark over batches of Arrow rows.

An expression must give the same value for the same row whenever it is evaluated,
and look at nothing but that row: what is published again after a crash must be
what was published before. So nothing random, no current time, no aggregates,
windows, subqueries or functions that make rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import pyarrow as pa
from pyspark.sql import functions as sf

from penstock.core.arrow_types import arrow_type
from penstock.core.tables import (
    BitType,
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)
from penstock.core.transforms.expressions import has_moving_literal
from penstock.core.transforms.transform import columns_of, lay_out, refuse
from penstock.spark.expression_errors import EXPRESSION_HINT, explained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.expressions import ExpressionColumn
    from penstock.core.transforms.transform import Values

_DIGITS_MAX: Final = 38
_SIGNED: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""What carries the unsigned integers, which Spark does not have."""
_INTEGERS: Final = {8: "tinyint", 16: "smallint", 24: "int", 32: "int", 64: "bigint"}
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # ${x} in a text is no variable.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
_CURRENT: Final = "it asks for the current time, date or user"
_ROW_BY_ROW: Final = frozenset({"Project", "LocalRelation", "LogicalRDD", "SubqueryAlias", "View"})


class SparkExpressions:
    """Evaluates expressions with a session: an `Evaluate` of `penstock.core.transforms.changes`."""

    def __init__(self, session: SparkSession) -> None:
        """Use a session beside `session`, in whose driver this is: times are in UTC there, wherever the driver is."""
        self._session = session.newSession()
        for key, value in _SETTINGS.items():
            self._session.conf.set(key, value)

    def __call__(self, column: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """Return the table with the column, and `rows` with its values.

        Raises TableStoppedError for an expression that does not parse, does not fit
        the columns, is not of one row, or fails on a value; UnavailableError where Spark
        is stopped, its job cancelled or its JVM gone, so that no message is to blame.
        """
        after, columns = column.derive(schema), columns_of(schema, rows)
        with explained(self._session, schema, column):
            frame = self._select(column, self._frame(schema, columns))
            _require_row_by_row(schema, column, frame)
            found = frame.toArrow() if rows.num_rows else None
        wanted = arrow_type(column.type)
        if found is None:
            return lay_out(schema, rows, after, [*columns, pa.array([], wanted)])
        if found.num_rows != rows.num_rows:
            reason = f"{column.sql!r} made {found.num_rows} rows of {rows.num_rows}"
            raise refuse(schema, column.name, reason, EXPRESSION_HINT)
        values = found.column(column.name).combine_chunks().cast(wanted)
        return lay_out(schema, rows, after, [*columns, values])

    def _frame(self, schema: TableSchema, columns: list[Values]) -> DataFrame:
        """Give Spark the rows, without columns that it has no type for.

        They have no number: `*` would see it. Spark keeps the order of rows through what is row by row.
        """
        named = {
            column.name: values.cast(_SIGNED.get(values.type, values.type))
            for column, values in zip(schema.columns, columns, strict=True)
            if not isinstance(column.type, DecimalType) or column.type.precision <= _DIGITS_MAX
        }
        return self._session.createDataFrame(pa.table(named))

    def _select(self, column: ExpressionColumn, frame: DataFrame) -> DataFrame:
        value = sf.expr(column.sql).cast(spark_type(column.type))
        return frame.select(value.alias(column.name))


def spark_type(type_: ColumnType) -> str:  # noqa: C901, PLR0911 - one return per type
    """Return what Spark calls a type; ValueError for one that it does not have."""
    match type_:
        case IntegerType(bits, unsigned) if not unsigned:
            return _INTEGERS[bits]
        case DecimalType(precision, scale) if precision <= _DIGITS_MAX:
            return f"decimal({precision},{scale})"
        case FloatType(bits):
            return "float" if bits == 32 else "double"  # noqa: PLR2004 - the width itself
        case TextType() | EnumType() | SetType() | PrintedType():
            return "string"
        case BytesType() | GeometryType():
            return "binary"
        case DateType():
            return "date"
        case DateTimeType():
            return "timestamp_ntz"
        case TimestampType():
            return "timestamp"
        case TimeType():
            return "interval day to second"
        case YearType():
            return "smallint"
        case IntegerType() | DecimalType() | BitType() | VectorType() | UnsupportedType():
            message = f"no expression gives a {type_}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _require_row_by_row(schema: TableSchema, column: ExpressionColumn, frame: DataFrame) -> None:
    """Look at what Spark has made of the expression. Raises TableStoppedError if more than its row has a say in it."""
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to the plan
    patterns = frame._sc._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr] # noqa: SLF001
    nodes = {line.strip(" +-:").partition(" ")[0] for line in plan.treeString().splitlines()}
    reasons = {
        "its value is another one each time": not plan.deterministic(),
        _CURRENT: plan.containsPattern(patterns.CURRENT_LIKE()) or has_moving_literal(column.sql),
        "it has a subquery": plan.containsPattern(patterns.PLAN_EXPRESSION()),
        "it looks at other rows, or makes some": bool(nodes - _ROW_BY_ROW),
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise refuse(schema, column.name, f"{column.sql!r}: {reason}", EXPRESSION_HINT)
    if _casts_words(frame, plan):
        raise refuse(schema, column.name, f"{column.sql!r}: {_CURRENT}", EXPRESSION_HINT)


def _casts_words(frame: DataFrame, plan: JavaObject) -> bool:
    """Whether a text such as 'now' or 'today' becomes a date or time, by Spark's own rule, which replaces these."""
    rules = frame._sc._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr] # noqa: SLF001 - as above
    replaced = rules.ReplaceExpressions.apply(plan)
    return not rules.SpecialDatetimeValues.apply(replaced).fastEquals(replaced)
