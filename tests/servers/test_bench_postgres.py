"""What the bench of PostgreSQL reads is what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.bench.lab import Lab, Settings
from penstock.bench.postgres.decode import read_slot_log
from penstock.bench.postgres.workload import create_table, make_slot, write_bulk, write_one_by_one
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer

_ROWS = 2_000

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("bench"), Settings(rows=_ROWS, seconds=1), lambda _: None) as opened:
        yield opened


@pytest.mark.parametrize("write", [write_bulk, write_one_by_one])
def test_each_way_of_reading_finds_every_row_that_was_written(
    lab: Lab, tmp_path: Path, write: Callable[[PostgresServer, TableId, int], None]
) -> None:
    server, name = lab.postgres_source(), f"bench_{write.__name__}"
    table = TableId(name, "orders")
    create_table(server, table)
    slot = name, make_slot(server, name)

    write(server, table, _ROWS)

    for what in ("receive", "decode", "encode"):
        assert read_slot_log(lab, table, slot, _ROWS, what, tmp_path).rows == _ROWS
