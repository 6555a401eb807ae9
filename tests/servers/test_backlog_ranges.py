"""A backlog that is read side by side: what its readers find out is committed with what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.slice_tasks import newest_record

from penstock.jobs.in_process import carry

if TYPE_CHECKING:
    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.embedded.kafka import KafkaBroker


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    made = case_servers.make_case(kafka, fresh_database)
    config = yaml.safe_load(made.file.read_text())
    config["sources"][0]["backlog_tasks"] = 3
    made.file.write_text(yaml.safe_dump(config))
    made.write("CREATE TABLE visits (id INT PRIMARY KEY, day DATE)", "CREATE TABLE users (id INT PRIMARY KEY)")
    made.start()
    return made


def stopped_tables(case: CaptureCase) -> set[str]:
    return set(newest_record(case.spec).stopped)


def test_a_table_that_stops_before_a_statement_stays_stopped_behind_it(case: CaptureCase) -> None:
    flush = "FLUSH BINARY LOGS"
    case.write(
        flush,
        "SET sql_mode = ''",
        "INSERT INTO visits VALUES (1, '0000-00-00')",
        "ALTER TABLE users ADD COLUMN karma INT",
        "INSERT INTO visits VALUES (2, '2024-02-29')",
        flush,
        flush,
        flush,
    )

    carry(case.spec, "db")

    assert stopped_tables(case) == {f"{case.database}.visits"}
    assert case.read(case.topic("visits")) == []
