"""Delta tables as a target of the tests that every kind of target passes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tests.servers.sink_case import RULES, TABLE, Place

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.tables import TableId
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.lake_paths import table_folder
from penstock.links.warehouse.lake_sink import LakeSink
from penstock.links.warehouse.lake_state import LakeState
from penstock.spark.delta.lake import DeltaLake
from penstock.spark.delta.query import _tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.links.warehouse.load_rules import LoadRules
    from penstock.links.warehouse.sink import SqlSink
    from penstock.ports.warehouse import Value, Warehouse

_IN_SPARK = (
    ("AS VARCHAR)", "AS STRING)"),
    ("CAST(EXTRACT(epoch FROM _committed_at) * 1000 AS BIGINT)", "UNIX_MILLIS(_committed_at)"),
    ("CAST(EXTRACT(epoch FROM _deleted_at) AS BIGINT)", "UNIX_SECONDS(_deleted_at)"),
)


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """A folder of tables, and the Spark that works on them."""

    session: SparkSession
    url: str

    def connect(self, owner: str) -> Warehouse:
        """See `Target`: there is nothing to connect to, and what reads and writes has two methods of a warehouse."""
        del owner
        return cast("Warehouse", DeltaReader(self))

    def lake(self, source: str = "shopdb", pipeline: str = "shop") -> DeltaLake:
        """What commits the tables of `source`."""
        owner = f"penstock/{pipeline}/{source}"
        lake = DeltaLake(self.session, open_objects(ObjectsSpec(self.url)), self.url, owner)
        # A plan that adapts to what it meets takes twice the jobs, which is all that a table of two rows costs.
        lake._session.conf.set("spark.sql.adaptive.enabled", "false")
        return lake

    def lake_state(self, source: str = "shopdb", pipeline: str = "shop") -> LakeState:
        """What is known of the tables of `source`."""
        return LakeState(open_objects(ObjectsSpec(self.url)), pipeline, source)


@dataclass(frozen=True, slots=True)
class DeltaReader:
    """Statements in which tables have their names, run on the folder."""

    target: DeltaTarget

    def fetch(self, query: str) -> list[tuple[Value, ...]]:
        """Run a query, in the UTC that a lake's own session has."""
        rows = self._lake()._session.sql(self._named(query)).toArrow()
        return [tuple(row.values()) for row in rows.to_pylist()]

    def run(self, statement: str) -> None:
        """Run a statement; DROP TABLE deletes the folder, as people do."""
        lake = self._lake()
        if name := re.fullmatch(r"DROP TABLE (\S+)", statement):
            lake.remove(TableId.parse(name[1]))
            return
        if made := re.fullmatch(r"CREATE TABLE (\S+) AS (.*)", statement):
            lake._session.sql(made[2]).write.format("delta").save(lake.folder(TableId.parse(made[1])))
            return
        lake._session.sql(self._named(statement))

    def close(self) -> None:
        """Spark stays."""

    def _lake(self) -> DeltaLake:
        """Somebody else's: who opens one deletes what an earlier one of the same owner has staged."""
        return self.target.lake("reader")

    def _named(self, statement: str) -> str:
        for ours, sparks in _IN_SPARK:
            statement = statement.replace(ours, sparks)
        for schema, table, folder in _tables(self.target.session, self.target.url):
            path = quote_name(DELTA, "delta", folder).replace("\\", r"\\")
            named = rf"(?<![\w.]){schema}\.{table}(?!\w)"
            if statement.lstrip().startswith("SELECT"):
                # Where a table has no other name in a query, it is called as its path would not let it.
                statement = re.sub(rf"{named}(?!\s+AS\b)", f"{path} AS {table}", statement)
            statement = re.sub(named, path, statement)
        return statement


class DeltaPlace(Place):
    """A folder of Delta tables, and the store its files are in."""

    def open(self, source: str = "shopdb", rules: LoadRules = RULES) -> SqlSink:
        """A sink for what comes from `source`."""
        target = cast("DeltaTarget", self.target)
        sink = _AskedSink(target.lake(source), target.lake_state(source), self.objects, rules)
        sink._warehouse = DeltaReader(target)
        self.opened.append(cast("SqlSink", sink))
        return cast("SqlSink", sink)

    def tables(self) -> list[str]:
        """The tables in the folder."""
        target = cast("DeltaTarget", self.target)
        return sorted(f"{schema}.{table}" for schema, table, _ in _tables(target.session, target.url))

    def columns(self, table: TableId = TABLE) -> dict[str, str]:
        """The columns of a table, in order, and their types in capital letters."""
        target = cast("DeltaTarget", self.target)
        fields = target.session.read.format("delta").load(f"{target.url}/{table_folder(table)}").schema.fields
        return {field.name: field.dataType.simpleString().upper() for field in fields}


class _AskedSink(LakeSink):
    """A sink with what the tests ask it by."""

    _warehouse: Any
