"""The parts of the warehouse bench that need no Spark, with so few rows that nothing can be concluded from them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.workload import create_table, login
from penstock.bench.lab import Lab, Settings
from penstock.bench.warehouse import manifest
from penstock.bench.warehouse.compare import COLUMNS, require_equal_duckdb
from penstock.bench.warehouse.workload import WARM_UP_ROWS, Mix, write_changes, write_warm_up
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ROWS = 2_000
_COLUMNS = (
    "id BIGINT, customer VARCHAR, quantity INTEGER, price DECIMAL(12, 2), ordered_at TIMESTAMP, "
    "remark VARCHAR, status TINYINT, details VARCHAR"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("bench"), Settings(rows=_ROWS), lambda _: None) as opened:
        yield opened


@pytest.fixture(scope="module")
def table(lab: Lab) -> TableId:
    """A table after all of its changes."""
    found = TableId("bench_mix", "orders")
    create_table(lab.source(), found)
    write_warm_up(lab.source(), found)
    write_changes(lab.source(), found, Mix.of(_ROWS))
    return found


def test_the_changes_are_as_many_as_asked_of_each_kind(lab: Lab, table: TableId) -> None:
    with closing(connect(login(lab.source()))) as connection:
        (counts,) = ask(
            connection,
            f"SELECT COUNT(*), MAX(id), SUM(quantity - id % 1000), SUM((id - {WARM_UP_ROWS}) % 5 = 0) "
            f"FROM {table} WHERE id > {WARM_UP_ROWS}",
        )

    # 1,000 inserts, of which every fifth is gone, and 800 updates that each add one.
    assert tuple(map(int, counts)) == (800, WARM_UP_ROWS + 999, 800, 0)


def test_a_target_that_differs_in_one_value_is_named(lab: Lab, table: TableId, tmp_path: Path) -> None:
    with closing(connect(login(lab.source()))) as connection:
        rows = ask(connection, f"SELECT * FROM {table}")
    file = tmp_path / "target.duckdb"
    with duckdb.connect(str(file)) as target:
        target.execute(f"CREATE TABLE orders ({_COLUMNS})")
        names = COLUMNS.split(", ")
        target.register("arrived", pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))))
        target.execute("INSERT INTO orders SELECT * FROM arrived")

    require_equal_duckdb(lab.source(), table, "a copy", file, "orders")

    with duckdb.connect(str(file)) as target:
        target.execute("UPDATE orders SET price = price + 0.01 WHERE id = 20002")
    with pytest.raises(PenstockError, match="a copy loaded wrong rows: the source has"):
        require_equal_duckdb(lab.source(), table, "a copy", file, "orders")


@pytest.mark.nightly
def test_the_memory_of_a_load_is_measured_in_every_kind_of_target(lab: Lab) -> None:
    figures = manifest.measure(lab)

    memory = [figure for figure in figures if figure.unit == "GiB"]
    assert [figure.name.split()[6] for figure in memory] == ["duckdb,", "postgres,"]
    assert all(figure.ok for figure in memory)
