"""What an audit knows of the target of a link whose tables are in another schema there."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import load
from penstock.core.audit.dialects import DUCKDB, MARIADB
from penstock.core.audit.table_plan import plan_table
from penstock.core.errors import PositionError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.links.warehouse.progress import TargetProgress
from penstock.links.warehouse.table_state import TableState
from penstock.wiring.audited_target import open_target
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.ports.audited import AuditedState

CONFIG = """\
pipeline: shop
sources:
  - {name: store, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: w.duckdb}
links:
  - {from: store, to: warehouse, schema: store_shop}
"""
ORDERS = TableId("shop", "orders")


def schema_of(table: TableId) -> TableSchema:
    return TableSchema(table, (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",))


def say(spec: PipelineSpec, *tables: TableId, waiting: TableId) -> None:
    """Have the target say that it has these tables, and that one waits."""
    (link,) = spec.links
    with closing(sql_kind(spec, spec.sinks[0]).open(link, serve_queries=False)) as warehouse:
        progress = TargetProgress(warehouse, spec.pipeline, link.source)
        progress.create()
        for table in tables:
            progress.set_table(table, TableState(schema_of(table), SchemaInPlace(1, (0, 0, 0))))
        progress.set_waiting({waiting: 7})


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    return load(file)


@pytest.fixture
def state(spec: PipelineSpec) -> Iterator[AuditedState]:
    with ExitStack() as stack:
        yield open_target(spec, spec.links[0], stack)[1]


def test_tables_that_the_target_has_in_another_schema_are_called_as_the_source_calls_them(
    spec: PipelineSpec, state: AuditedState
) -> None:
    say(spec, TableId("store_shop", "orders"), TableId("crm", "orders"), waiting=TableId("store_shop", "notes"))

    assert state.living() == [ORDERS]
    assert state.waiting() == {TableId("shop", "notes")}
    assert state.table(TableId("shop", "notes")) is None


def test_rows_are_read_from_the_table_of_the_target_s_own_name(spec: PipelineSpec, state: AuditedState) -> None:
    say(spec, TableId("store_shop", "orders"), waiting=TableId("store_shop", "notes"))

    known = state.table(ORDERS)

    assert known is not None
    plan = plan_table(schema_of(ORDERS), known, (MARIADB, DUCKDB), lambda _: "")
    assert plan.source is not None
    assert plan.target is not None
    assert (plan.source.rows, plan.target.rows) == ("`shop`.`orders`", '"store_shop"."orders"')


def test_a_link_that_had_another_schema_is_told_of(spec: PipelineSpec, state: AuditedState) -> None:
    say(spec, waiting=ORDERS)

    with pytest.raises(PositionError, match=r"shop\.orders waits in the target") as told:
        state.waiting()

    assert told.value.hint == "give the link the `schema` that it had"
