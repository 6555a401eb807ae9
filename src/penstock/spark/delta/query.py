"""Reading Delta tables with Spark SQL, by the names that their source has for them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException, ParseException

from penstock.core.errors import SinkError, UsageError
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.ports.queries import QueryResult, ReadLimits
from penstock.spark.delta.errors import explained
from penstock.spark.delta.session import own_session, spark_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_ONE_READ = "give one SELECT, DESCRIBE, SHOW or EXPLAIN; the pipeline alone writes to its targets"
_READING_COMMANDS = ("Describe", "Show", "Explain")
_TAG = "penstock-sql"


def query_lake(session: SparkSession, url: str, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one reading statement over the tables below `url`, each as its newest commit left it.

    Raises UsageError for a statement that does not read or that Spark does not
    understand, and SinkError for one that fails or takes too long.
    """
    own = own_session(session)
    try:
        _check_reads(own, statement)
        with explained("run the query"):
            _name_tables(own, spark_url(url), statement)
        with _time_limit(own, limits.seconds_max) as is_late:
            try:
                with explained("run the query"):
                    found = own.sql(statement).limit(limits.rows_max + 1).toArrow()
            except SinkError as error:
                if is_late.is_set():
                    message = f"the query was ended after {limits.seconds_max:g} seconds"
                    raise SinkError(message, "ask for less at once") from error
                raise _mistake(error) from error
    except ParseException as error:
        raise UsageError(str(error), "correct the statement") from error
    rows = found.slice(0, limits.rows_max)
    while rows.nbytes > limits.bytes_max:
        rows = rows.slice(0, rows.num_rows // 2)
    return QueryResult(rows, truncated=rows.num_rows < found.num_rows)


def _mistake(error: SinkError) -> SinkError | UsageError:
    """Tell a mistake in the statement from a store that fails."""
    if isinstance(error.__cause__, AnalysisException):
        return UsageError(error.message, "correct the statement; the tables are called as in their source")
    return error


def _check_reads(session: SparkSession, statement: str) -> None:
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(statement)  # noqa: SLF001 - no other parser
    jvm: Any = session._jvm  # noqa: SLF001 - as above
    logical = "org.apache.spark.sql.catalyst.plans.logical"
    writing = [jvm.java.lang.Class.forName(f"{logical}.{name}") for name in ("Command", "ParsedStatement")]
    for node in _nodes(plan):
        name = node.getClass().getSimpleName()
        if any(kind.isInstance(node) for kind in writing) and not name.startswith(_READING_COMMANDS):
            message = f"{name} does not only read"
            raise UsageError(message, _ONE_READ)


def _nodes(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - a Java object
    yield plan
    children = plan.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _name_tables(session: SparkSession, url: str, statement: str) -> None:
    """Tell Spark's catalogue of the tables whose names are in the statement, or of all where it shows what there is.

    Upper and lower case do not count there: of two such names the one that the statement writes is told. Raises
    UsageError where that is both or neither, for Spark would read one in the place of the other.
    """
    shows, asked = statement.lstrip().casefold().startswith("show"), statement.casefold()
    told: dict[str, tuple[str, bool]] = {}
    found = [each for each in _tables(session, url) if shows or each[1].casefold() in asked]
    written = {each: all(name in statement for name in each[:2]) for each in found}
    for each in sorted(found, key=lambda each: not written[each]):
        schema, table, folder = each
        name = f"{schema}.{table}"
        other, is_written = told.setdefault(name.casefold(), (name, written[each]))
        if other != name and is_written == written[each] and not shows:
            message = f"the lake has {other} and {name}, and upper and lower case do not count in Spark"
            raise UsageError(message, "write the name of one of them, as the source has it, in a statement")
        session.sql(f"CREATE SCHEMA IF NOT EXISTS {quote_name(DELTA, schema)}")
        path = quote_name(DELTA, schema, table)
        session.sql(f"CREATE TABLE IF NOT EXISTS {path} USING delta LOCATION {quote_text(folder, DELTA)}")


def _tables(session: SparkSession, url: str) -> Iterator[tuple[str, str, str]]:
    """Yield schema, table and folder of every Delta table below `url`."""
    jvm: Any = session._jvm  # noqa: SLF001 - as above
    root = jvm.org.apache.hadoop.fs.Path(url)
    files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - as above
    for schema in files.listStatus(root) if files.exists(root) else ():
        schema_name = schema.getPath().getName()
        if schema.isDirectory() and schema_name != "_penstock":
            for table in files.listStatus(schema.getPath()):
                name = table.getPath().getName()
                if files.exists(jvm.org.apache.hadoop.fs.Path(table.getPath(), "_delta_log")):
                    yield unquote(schema_name), unquote(name), f"{url}/{schema_name}/{name}"


@contextmanager
def _time_limit(session: SparkSession, seconds: float) -> Iterator[threading.Event]:
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        session.interruptTag(_TAG)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    session.addTag(_TAG)
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        session.removeTag(_TAG)
