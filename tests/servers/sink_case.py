"""A target of each kind with files to load into it, and small questions that every kind answers."""

from __future__ import annotations

import zlib
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.adapters.duckdb.database import DuckdbLimits
from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.adapters.postgres.warehouse import PostgresWarehouse
from penstock.adapters.redshift.warehouse import RedshiftLoads, RedshiftWarehouse
from penstock.adapters.snowflake.account import SnowflakeAccount
from penstock.adapters.snowflake.warehouse import SnowflakeWarehouse
from penstock.core.batches import Batch
from penstock.core.file_formats import PARQUET, FileFormat, render_as
from penstock.core.files import file_schema, object_key
from penstock.core.tables import BytesType, Column, ColumnType, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.dialects import REDSHIFT
from penstock.core.warehouse.state_schema import TASKS, state_schema
from penstock.core.warehouse.table_layout import TableLayouts
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.adapters.objects.store import Objects
    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.redshift.connection import RedshiftCluster
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.redshift_copy import CopyRights
    from penstock.dev.snowflake import SnowflakeServer
    from penstock.ports.warehouse import Value, Warehouse

TOPIC = "shopdb.shop.orders"
TABLE = TableId("shop", "orders")
AT_ONCE = DuckdbLimits(memory_mb=256, threads=1, lock_wait_seconds=0.0)
RULES = LoadRules()

Change = tuple[str, str, int | None]


def schema(**types: ColumnType) -> TableSchema:
    """A table with the key `id` and these nullable columns."""
    columns = [Column("id", TextType(20, "utf8mb4"), nullable=False)]
    columns += [Column(name, type_, nullable=True) for name, type_ in types.items()]
    return TableSchema(TABLE, tuple(columns), ("id",))


INT = IntegerType(32, unsigned=False)
FIRST = schema(qty=INT)
WIDER = schema(qty=IntegerType(64, unsigned=False))
OTHER = schema(title=TextType(20, "utf8mb4"))
UNLIKE = schema(qty=BytesType(9, fixed=False))
SCHEMAS: Mapping[int, TableSchema] = {1: FIRST, 2: WIDER, 3: OTHER, 4: UNLIKE}
"""Rows of the first can become rows of the next two, and not of the last."""


class Target(Protocol):
    """Where a warehouse of one kind is."""

    def connect(self, owner: str) -> Warehouse:
        """Connect, as the one who is called so."""
        ...


@dataclass(frozen=True, slots=True)
class DuckdbTarget:
    """A file."""

    path: Path

    def connect(self, owner: str) -> Warehouse:
        """See `Target`; a file's writers take turns whoever they are."""
        del owner
        return DuckdbWarehouse(self.path, AT_ONCE)


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A database."""

    server: PostgresServer

    def connect(self, owner: str) -> Warehouse:
        """See `Target`."""
        return PostgresWarehouse(self.server, owner)


@dataclass(frozen=True, slots=True)
class RedshiftTarget:
    """A database of a Redshift, and what its loads need beside it."""

    cluster: RedshiftCluster
    store: Objects
    store_url: str
    rights: CopyRights
    layouts: TableLayouts = field(default_factory=TableLayouts)
    dialect: Dialect = REDSHIFT

    def connect(self, owner: str) -> Warehouse:
        """See `Target`."""
        pipeline, _, source = owner.partition("/")
        state = state_schema(REDSHIFT, pipeline, source)
        files = (self.store, self.store_url, self.rights)
        return RedshiftWarehouse(
            self.cluster,
            RedshiftLoads(
                *files,
                pipeline,
                "redshift",
                state,
                self.layouts,
                self.dialect,
                turns=TASKS if source == TASKS else "positions",
            ),
        )


@dataclass(frozen=True, slots=True)
class SnowflakeTarget:
    """A database of a Snowflake."""

    account: SnowflakeAccount

    def connect(self, owner: str) -> Warehouse:
        """See `Target`."""
        pipeline, _, source = owner.partition("/")
        return SnowflakeWarehouse(self.account, pipeline, source)


def snowflake_target(server: SnowflakeServer, name: str) -> SnowflakeTarget:
    """A database of its own on a stand-in. DuckDB, behind that, takes a schema with its database's name for it."""
    where = (server.account, server.host, server.port, "http")
    account = SnowflakeAccount(*where, server.user, f"DB_{name.upper()}", "WH", password=server.password)
    return SnowflakeTarget(account)


@dataclass(frozen=True, slots=True)
class Place:
    """A target and the store its files are in, which are written as `format` says."""

    target: Target
    objects: Objects
    format: FileFormat = PARQUET
    opened: list[SqlSink] = field(default_factory=list)

    @property
    def state(self) -> str:
        """The schema of the state tables of what comes from `shopdb`."""
        return "penstock_shop_shopdb" if isinstance(self.target, RedshiftTarget) else "penstock"

    @property
    def defines_ahead(self) -> bool:
        """Whether definitions commit by themselves, and so come ahead of the rows that need them."""
        return isinstance(self.target, SnowflakeTarget)

    @property
    def holds_nul(self) -> bool:
        """Whether its texts have the character NUL."""
        return isinstance(self.target, DuckdbTarget | SnowflakeTarget)

    def open(self, source: str = "shopdb", rules: LoadRules = RULES) -> SqlSink:
        """A sink for what comes from `source`."""
        sink = SqlSink(self.target.connect(f"shop/{source}"), "shop", source, self.objects, rules)
        self.opened.append(sink)
        return sink

    def close(self) -> None:
        """Close every sink."""
        for sink in self.opened:
            sink.close()

    def ask(self, query: str) -> list[tuple[Value, ...]]:
        """Run a query on a connection of its own."""
        with closing(self.target.connect("reader")) as warehouse:
            return warehouse.fetch(query)

    def do(self, *statements: str) -> None:
        """Run statements on a connection of their own."""
        with closing(self.target.connect("somebody")) as warehouse:
            for statement in statements:
                warehouse.run(statement)

    def tables(self) -> list[str]:
        """The tables that are no state, with their schemas."""
        ours = "('information_schema', 'pg_catalog')"
        names = "SELECT table_schema, table_name FROM information_schema.tables"
        found = self.ask(f"{names} WHERE table_schema NOT IN {ours} AND table_schema NOT LIKE 'penstock%'")
        return sorted(f"{s}.{t}" for s, t in found)

    def columns(self, table: TableId = TABLE) -> dict[str, str]:
        """The columns of a table, in order, and their types in capital letters."""
        query = (
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_schema = '{table.schema}' AND table_name = '{table.name}' ORDER BY ordinal_position"
        )
        return {str(name): str(type_).upper() for name, type_ in self.ask(query)}

    def batch(
        self,
        start: int,
        changes: list[Change],
        *,
        schema_id: int = 1,
        topic: str = TOPIC,
        format_: FileFormat | None = None,
    ) -> Batch:
        """Write the file of (op, id, the other column's value) changes, and tell of it."""
        layout, format_ = file_schema(SCHEMAS[schema_id]), format_ or self.format
        rows = [dict(zip(layout.names, [key, value, op, start + n], strict=True)) for n, (op, key, value) in
                enumerate(changes)]  # fmt: skip
        file = render_as(format_, SCHEMAS[schema_id], pa.Table.from_pylist(rows, layout))
        key = object_key("shop", "shopdb", topic, 0, (start, start + len(changes)), schema_id)
        self.objects.put(key, file.content)
        told = schema_change(schema_id, start, topic=topic)
        told = replace(told, format=format_.name, compression=format_.compression, dialect=file.dialect)
        told = replace(told, path=key, size_bytes=len(file.content), crc32=zlib.crc32(file.content))
        return replace(told, end_offset=start + len(changes), rows=len(changes))

    def moved_into_message(self, batch: Batch) -> Batch:
        """The batch as it comes from Kafka with its file in it; there is none in the store any more."""
        told = replace(batch, content=self.objects.get(batch.path))
        self.objects.delete([batch.path])
        return Batch.from_json(told.to_json())


def write_batch(
    place: Place, table: TableSchema, schema_id: int, start: int, rows: Sequence[tuple[object, ...]]
) -> Batch:
    """Write a file of rows (values of the source's columns, then the op) of `table`, each where its offset says."""
    layout = file_schema(table)
    own = ("bin.000001", 0, 0, 1_700_000_000_000)
    fields = [(*row, start + n, own[0], start + n, *own[2:]) for n, row in enumerate(rows)]
    content = [dict(zip(layout.names, values, strict=False)) for values in fields]
    path = f"{table.table}-{schema_id}-{start}"
    file = render_as(place.format, table, pa.Table.from_pylist(content, layout))
    place.objects.put(path, file.content)
    told = replace(schema_change(schema_id, start), table=table.table, last_timestamp_ms=own[3])
    told = replace(told, format=place.format.name, compression=place.format.compression, dialect=file.dialect)
    size = len(file.content)
    return replace(told, end_offset=start + len(rows), rows=len(rows), path=path, size_bytes=size)


def schema_change(schema_id: int, start: int = 0, *, topic: str = TOPIC) -> Batch:
    """A batch without rows; the log's order follows schema ids, then offsets."""
    order = (schema_id, start, 0)
    return Batch("shopdb", TABLE, topic, 0, start, start, 0, "", 0, "parquet", schema_id, order, order, 0)


def rows_in(sink: SqlSink, query: str = "SELECT * FROM shop.orders ORDER BY id") -> list[tuple[Value, ...]]:
    """Ask over the sink's own connection."""
    return sink._warehouse.fetch(query)
