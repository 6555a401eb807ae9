"""A folder of Delta tables, `SCHEMA/TABLE`, as a lake."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.core.files import staged_columns
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import quote_name, render_type
from penstock.core.warehouse.lake_paths import table_folder
from penstock.links.warehouse.lake_state import FOLDER
from penstock.spark.delta.errors import explained
from penstock.spark.delta.log import DeltaLogs
from penstock.spark.delta.session import own_session, spark_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter

    from penstock.core.tables import Column, TableId, TableSchema
    from penstock.ports.objects import ObjectStore

_STAGED = "__penstock_staged"
_NUMBER_OF = "spark.databricks.delta.write.txnAppId"
_NUMBER = "spark.databricks.delta.write.txnVersion"
_STAGED_AS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(20, 0)": pa.decimal128(20, 0),
}
"""How a file holds values for Spark, where our own files have a type that Spark does not read as the column's."""


class DeltaLake:
    """One pipeline's and source's way to the tables below `url`. It implements the port `Lake`.

    Its numbers are Delta's application transactions (the action `txn`).
    """

    def __init__(self, session: SparkSession, store: ObjectStore, url: str, owner: str) -> None:
        """Work in a session of its own beside `session`; `store` is `url`, opened."""
        self._session = own_session(session)
        self._store = store
        self._url = spark_url(url.rstrip("/"))
        self._owner = owner
        self._logs = DeltaLogs(self._session, owner, self._commit)
        self._staging = f"{FOLDER}/{quote(owner, safe='')}/staged"
        for key in store.list(f"{self._staging}/"):
            store.delete([key])

    def path(self, table: TableId, version: int | None = None) -> str:
        """See `Lake`."""
        quoted = quote_name(DELTA, "delta", self.folder(table))
        return quoted if version is None else f"{quoted} VERSION AS OF {version}"

    def folder(self, table: TableId) -> str:
        """Where the table's files are, as Spark calls it."""
        return f"{self._url}/{table_folder(table)}"

    def exists(self, table: TableId) -> bool:
        """See `Lake`."""
        with explained(f"look for {table}"):
            return self._logs.exists(self.folder(table))

    def number(self, table: TableId) -> int | None:
        """See `Lake`."""
        with explained(f"read the log of {table}"):
            return self._logs.number(self.folder(table))

    def version(self, table: TableId) -> int:
        """See `Lake`."""
        with explained(f"read the log of {table}"):
            return self._logs.version(self.folder(table))

    def is_empty(self, table: TableId) -> bool:
        """See `Lake`."""
        with explained(f"read {table}"):
            return not self._session.sql(f"SELECT 1 FROM {self.path(table)} LIMIT 1").collect()  # noqa: S608 - quoted

    def replace(self, schema: TableSchema, query: str, number: int) -> None:
        """See `Lake`. A new table gets column mapping by name: its columns can then be renamed and dropped."""
        with explained(f"write {schema.table}"):
            rows = _commented(self._session.sql(query), schema)
            writer = self._writer(rows, "overwrite", number).option("overwriteSchema", "true")
            if not self._logs.exists(self.folder(schema.table)):
                writer = writer.option("delta.columnMapping.mode", "name")
                writer = writer.option("comment", schema.comment) if schema.comment else writer
            elif any(type_ == "timestamp_ntz" for _, type_ in rows.dtypes):
                self._logs.allow_local_times(self.folder(schema.table))
            writer.save(self.folder(schema.table))

    def append(self, table: TableId, query: str, number: int) -> None:
        """See `Lake`."""
        with explained(f"add to {table}"):
            self._writer(self._session.sql(query), "append", number).save(self.folder(table))

    def change(self, table: TableId, statement: str, number: int) -> None:
        """See `Lake`."""
        with explained(f"change {table}"):
            self._session.conf.set(_NUMBER_OF, self._owner)
            self._session.conf.set(_NUMBER, str(number))
            try:
                self._session.sql(statement)
            finally:
                self._session.conf.unset(_NUMBER_OF)
                self._session.conf.unset(_NUMBER)

    def amend(self, table: TableId, change: Callable[[str], str], number: int) -> None:
        """See `Lake`."""
        with explained(f"change the columns of {table}"):
            self._logs.commit(self.folder(table), number, change)

    def note(self, table: TableId, number: int, behind: int | None = None) -> None:
        """See `Lake`."""
        with explained(f"commit {table}"):
            self._logs.commit(self.folder(table), number, behind=behind)

    def run(self, statement: str) -> None:
        """See `Lake`."""
        with explained("run a statement"):
            self._session.sql(statement)

    def count(self, query: str) -> int:
        """See `Lake`."""
        with explained("run a query"):
            ((count,),) = self._session.sql(query).collect()
        return int(count)

    @contextmanager
    def staged(self, schema: TableSchema, rows: pa.Table) -> Iterator[str]:
        """See `Lake`. The rows are a file of the store, which Spark reads wherever it runs, a part at a time."""
        columns = staged_columns(schema, rows.column_names)
        key = f"{self._staging}/{uuid.uuid4().hex}.parquet"
        self._store.put(key, _spark_file(columns, rows))
        try:
            with explained("stage rows"):
                types = ", ".join(f"c{n} {render_type(DELTA, column.type)}" for n, column in enumerate(columns))
                staged = self._session.read.schema(types).parquet(f"{self._url}/{key}")
                staged.toDF(*(column.name for column in columns)).createOrReplaceTempView(_STAGED)
            yield quote_name(DELTA, _STAGED)
        finally:
            self._session.catalog.dropTempView(_STAGED)
            self._store.delete([key])

    def remove(self, table: TableId) -> None:
        """See `Lake`."""
        with explained(f"delete {table}"):
            self._logs.remove(self.folder(table))

    def close(self) -> None:
        """See `Lake`. Spark is the pipeline's, and stays."""

    def _commit(self, path: str, version: int) -> bytes | None:
        key = f"{path.removeprefix(self._url)}/_delta_log/{version:020d}.json".lstrip("/")
        return self._store.get(key) if self._store.exists(key) else None

    def _writer(self, rows: DataFrame, mode: str, number: int) -> DataFrameWriter:
        numbered = rows.write.format("delta").mode(mode)
        return numbered.option("txnAppId", self._owner).option("txnVersion", str(number))


def _commented(rows: DataFrame, schema: TableSchema) -> DataFrame:
    comments = {column.name: column.comment for column in schema.columns if column.comment}
    if not comments:
        return rows
    names = rows.columns
    columns = [F.col(quote_name(DELTA, name)) for name in names]
    return rows.select(
        *(
            column.alias(name, metadata={"comment": comments[name]}) if name in comments else column
            for name, column in zip(names, columns, strict=True)
        )
    )


def _spark_file(columns: Sequence[Column], rows: pa.Table) -> bytes:
    """Return the rows, which have these columns, as Parquet, in types that Spark has, columns c0, c1, ..."""
    types = [_STAGED_AS.get(render_type(DELTA, column.type)) for column in columns]
    fields = [pa.field(f"c{n}", type_ or rows.field(n).type) for n, type_ in enumerate(types)]
    named = rows.rename_columns([field.name for field in fields]).cast(pa.schema(fields))
    sink = pa.BufferOutputStream()
    pq.write_table(named, sink, compression="snappy", version="2.6")
    content: bytes = sink.getvalue().to_pybytes()
    return content
