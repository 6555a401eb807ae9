"""Whether a Redshift database can be a target."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.adapters.redshift.warehouse import RedshiftLoads, RedshiftWarehouse
from penstock.core.errors import CASE_THAT_COUNTS, TEXTS_WITHOUT_CASE, UnfitServerError
from penstock.core.files import OP, file_schema
from penstock.core.tables import Column, IntegerType, TableId, TableSchema

if TYPE_CHECKING:
    from penstock.adapters.redshift.connection import RedshiftCluster

_PROBE = TableSchema(
    TableId("penstock", "probe"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",)
)

_STALE = """
    SELECT "schema", "table", stats_off FROM svv_table_info
    WHERE stats_off > 20 AND "schema" NOT LIKE 'penstock%' ORDER BY stats_off DESC LIMIT 5"""
"""Redshift analyzes tables by itself, where its load lets it."""


def examine_database(cluster: RedshiftCluster, loads: RedshiftLoads) -> str:
    """Say what takes our login, and which statistics are stale; a file is written, copied and deleted.

    Raises UnfitServerError for a database that is no Redshift's, or that does not
    permit schemas or temporary tables to be created, and what a load raises.
    """
    with closing(RedshiftWarehouse(cluster, loads)) as warehouse:
        query = """
            SELECT version(), CASE WHEN has_database_privilege(current_database(), 'CREATE') THEN 1 ELSE 0 END,
                CASE WHEN has_database_privilege(current_database(), 'TEMP') THEN 1 ELSE 0 END"""
        ((version, may_create, may_stage),) = warehouse.fetch(query)
        if "Redshift" not in str(version):
            message = f"{cluster} is {version}"
            raise UnfitServerError(message, "give the sink kind: postgres, or the address of a Redshift")
        for may, right, what in ((may_create, "CREATE", "schemas"), (may_stage, "TEMP", "temporary tables")):
            if not may:
                message = f"{cluster}: no privilege to create {what}"
                hint = f"grant it: GRANT {right} ON DATABASE {cluster.database} TO {cluster.user}"
                raise UnfitServerError(message, hint)
        rows = pa.Table.from_pylist([{"id": 1, "__penstock_op": "c", "__penstock_offset": 0}], file_schema(_PROBE))
        warehouse.run("BEGIN")
        with warehouse.staged(_PROBE, rows) as staged:
            same = f"SELECT COUNT(*) FROM {staged} WHERE \"{OP}\" = 'C'"  # noqa: S608 - names of ours
            ((same_but_for_case,),) = warehouse.fetch(same)
            warehouse.run("ROLLBACK")
        if same_but_for_case:
            message = f"{cluster}: {TEXTS_WITHOUT_CASE}"
            raise UnfitServerError(message, CASE_THAT_COUNTS)
        stale = warehouse.fetch(_STALE)
    listed = ", ".join(f"{schema}.{table} ({float(off):.0f} % off)" for schema, table, off in stale)
    told = f"; statistics are stale (ANALYZE): {listed}" if listed else ""
    return f"takes the login, and creates schemas; COPY reads our files{told}"
