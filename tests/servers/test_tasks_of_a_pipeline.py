"""Tasks behind a whole pipeline: a change log of the source's table becomes what its documentation shows."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

from penstock.jobs.in_process import carry

if TYPE_CHECKING:
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"


@pytest.fixture
def chain(
    tmp_path: Path, mariadb: MariadbServer, fresh_database: str, chain_parts: tuple[KafkaBroker, str, int]
) -> Chain:
    return make_chain(tmp_path, fresh_database, mariadb, chain_parts)


def documented_tasks() -> str:
    """The tasks of the page's example, as they stand in a file."""
    block = re.search(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert block is not None
    return textwrap.dedent(block[1].partition("    tasks:\n")[2])


@pytest.mark.nightly
def test_the_documented_tasks_count_every_row_once(chain: Chain) -> None:
    tasks = textwrap.indent(documented_tasks().replace("shop.audit_log", f"{chain.name}.audit_log"), " " * 6)
    begin, _, rest = chain.file.read_text().partition("  - {name: wh, kind: duckdb, path: ")
    path, _, rest = rest.partition("}")
    chain.file.write_text(f"{begin}  - name: wh\n    kind: duckdb\n    path: {path}\n    tasks:\n{tasks}{rest}")
    chain.write("CREATE TABLE audit_log (logged_at DATETIME, action VARCHAR(20))")
    row = "INSERT INTO audit_log VALUES ('2024-02-29 12:00:00', 'login')"

    carry(chain.spec)
    chain.write(row, row)
    carry(chain.spec)
    carry(chain.spec)
    chain.write(row, "DELETE FROM audit_log LIMIT 1", row.replace("29 12", "28 12").replace("login", "logout"))
    carry(chain.spec)

    found = chain.query("SELECT CAST(day AS VARCHAR), action, SUM(times) FROM mart.actions GROUP BY 1, 2 ORDER BY 1")
    assert found == [("2024-02-28", "logout", 1), ("2024-02-29", "login", 3)]
    assert chain.query("SELECT SUM(times) FROM mart.per_day") == [(4,)]
