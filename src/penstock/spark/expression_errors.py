"""Tells what is wrong with an expression or its value from what kept Spark from evaluating it.

The first stops its table, or puts its message aside. The second is nobody's fault
there: a job that was cancelled, a session that was stopped, a JVM that is gone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from penstock.core.errors import TableStoppedError, UnavailableError
from penstock.core.transforms.transform import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaGateway, JavaObject
    from pyspark.sql import SparkSession

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.expressions import ExpressionColumn

EXPRESSION_HINT: Final = "correct the expression; it is in Spark SQL, and sees one row"
_AWAY_HINT: Final = (
    "nothing was published, and no message put aside: the link goes on with the same ones, after a stop with the next "
    "run; if it does not, see Spark's log and its memory"
)
_WITH_CONDITIONS: Final = "org.apache.spark.SparkThrowable"
_CANCELLED: Final = "SPARK_JOB_CANCELLED"
_STATES_OF_SERVERS: Final = frozenset({"08", "53", "57", "58"})
"""Classes of SQLSTATE that are of no value: connection, resources, an operator, the system."""
_PARTS_OF_SPARK: Final = "INTERNAL_ERROR_"
"""What conditions begin with that blame a part of Spark: its storage, network, executors."""
_OF_RUNNING: Final = (
    "java.lang.IllegalStateException",  # a context that is stopped; java.util.concurrent.CancellationException
    "java.util.concurrent.RejectedExecutionException",
    "java.io.UncheckedIOException",
    "org.apache.spark.TaskKilledException",
)
"""Java's unchecked exceptions that are not about a value."""
_OF_VALUES: Final = ("java.lang.RuntimeException", "java.lang.StackOverflowError")
_CAUSES_MAX: Final = 50


@contextmanager
def explained(session: SparkSession, schema: TableSchema, column: ExpressionColumn) -> Iterator[None]:
    """Raise TableStoppedError or UnavailableError in place of what Spark raises while `session` evaluates `column`."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        # OSError where nobody listens any more.
        raise _explain(session, schema, column, error) from error
    except (AttributeError, AssertionError) as error:
        # PySpark calls methods of None once its context was stopped.
        if session.sparkContext._jsc is not None:  # noqa: SLF001 - PySpark has no other word for it
            raise
        raise _away(schema, column, str(error)) from error


def _explain(
    session: SparkSession, schema: TableSchema, column: ExpressionColumn, error: Exception
) -> TableStoppedError | UnavailableError:
    try:
        is_fault, said = _judge(session, error)
    except (Py4JError, OSError):
        # Whom we ask about the error is gone, and the error came of that.
        is_fault, said = False, _first_line(str(error))
    if is_fault:
        return refuse(schema, column.name, f"{column.sql!r}: {said}", EXPRESSION_HINT)
    return _away(schema, column, said)


def _away(schema: TableSchema, column: ExpressionColumn, said: str) -> UnavailableError:
    message = f"Spark did not come to evaluate {column.sql!r} for {schema.table}.{column.name}: {said}"
    return UnavailableError(message, _AWAY_HINT)


def _judge(session: SparkSession, error: Exception) -> tuple[bool, str]:
    """Return whether an expression or a value is at fault, and what Spark says."""
    said = _first_line(str(error))
    thrown, gateway = _thrown(error), session.sparkContext._gateway  # noqa: SLF001 - there is no other way to the JVM
    if gateway is None or thrown is None:
        return isinstance(error, PySparkException), said
    told = _telling(thrown, gateway)
    if isinstance(error, Py4JJavaError):
        # Such an error says in its first line only which of Py4J's objects was called.
        said = _first_line(told.toString())
    if session._jsparkSession.sparkContext().isStopped():  # noqa: SLF001 - as above
        # Whatever comes then, a NullPointerException too, may come of it.
        return False, said
    return isinstance(error, AnalysisException) or _is_of_value(told, gateway), said


def _thrown(error: Exception) -> JavaObject | None:
    """Return what Java threw, if it was Java; PySpark keeps it to itself where it has an exception of its own."""
    match error:
        case Py4JJavaError():
            return error.java_exception
        case CapturedException():
            return error._origin  # noqa: SLF001
        case _:
            return None


def _telling(thrown: JavaObject, gateway: JavaGateway) -> JavaObject:
    """Return the first of `thrown` and its causes that has a condition of Spark's, else the last of them."""
    for _ in range(_CAUSES_MAX):
        cause = thrown.getCause()
        if cause is None or _condition(thrown, gateway) is not None:
            break
        thrown = cause
    return thrown


def _condition(thrown: JavaObject, gateway: JavaGateway) -> str | None:
    """Return the name that Spark gives the error, if any.

    A plain SparkException has none: a job of a context that was stopped, a stage whose executors were lost.
    """
    if not is_instance_of(gateway, thrown, _WITH_CONDITIONS):
        return None
    found: str | None = gateway.jvm.PythonErrorUtils.getCondition(thrown)
    return found


def _is_of_value(thrown: JavaObject, gateway: JavaGateway) -> bool:
    """Whether it can only be about a value: by its condition, else by its class."""
    condition = _condition(thrown, gateway)
    if condition is not None:
        state = gateway.jvm.PythonErrorUtils.getSqlState(thrown) or ""
        is_of_spark = condition == _CANCELLED or condition.startswith(_PARTS_OF_SPARK)
        return not is_of_spark and state[:2] not in _STATES_OF_SERVERS
    if any(is_instance_of(gateway, thrown, name) for name in _OF_RUNNING):
        return False
    return any(is_instance_of(gateway, thrown, name) for name in _OF_VALUES)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
