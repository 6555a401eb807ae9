"""A table through user code on Spark into a topic: killed in the middle, with a message that the code cannot take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain

from penstock.core.avro.wire import split
from penstock.core.spolts.avro_records import avro_records
from penstock.wiring.open import open_subjects, open_topic_log
from penstock.wiring.standing import read_standing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.dev.kafka import KafkaBroker
    from penstock.dev.mariadb import MariadbServer
    from penstock.ports.topics import TopicLog

SPOLTS = """\
spolts:
  - name: versions
    function: code_{name}:versions
    from: src_{name}.{name}.*
    to: {{topic: {name}.versions, key: id}}
    on_error: dead_letter
"""
CODE = """\
import pyarrow as pa
from penstock.spolts import Message, Output, spolt

ID = pa.field("id", pa.int64(), nullable=False)

@spolt(output=pa.schema([ID, ("version", pa.int64()), ("op", pa.string())]))
def versions(message: Message):
    row = message.row
    yield Output({"id": row["id"], "version": {version}, "op": message.operation})
"""
_WAIT_SECONDS = 240
_ROWS = 40
_VERSIONS = 10


@pytest.mark.timeout(900)
def test_every_change_is_in_the_output_once_and_in_order_after_kill_9_and_a_bad_one_when_it_is_replayed(
    tmp_path: Path, fresh_database: str, mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int]
) -> None:
    case = make_chain(tmp_path, fresh_database, mariadb, chain_parts, SPOLTS.format(name=fresh_database))
    text = case.file.read_text()
    case.file.write_text(text[: text.index("sinks:")])
    topic = f"{fresh_database}.versions"
    code = tmp_path / f"code_{fresh_database}.py"
    code.write_text(CODE.replace("{version}", 'row["version"] // (row["version"] != 7 or row["id"] != 3)'))
    case.write("CREATE TABLE counters (id INT PRIMARY KEY, version BIGINT NOT NULL)")
    case.write(*(f"INSERT INTO counters VALUES ({number}, 0)" for number in range(_ROWS)))
    case.start()
    case.capture()

    version = _change_until_killed_in_the_middle(case, topic)
    for more in range(version + 1, version + 4):
        case.write(f"UPDATE counters SET version = {more}")
    case.write("DELETE FROM counters WHERE id = 5")
    case.capture()
    _penstock("run", str(case.file), "--once", "--only", "versions")

    last = version + 3
    found = _versions(case, topic)
    assert found.pop(3) == [number for number in range(last + 1) if number != 7]
    assert found.pop(5) == [*range(last + 1), last]
    assert found == {number: list(range(last + 1)) for number in range(_ROWS) if number not in {3, 5}}
    standing = read_standing(case.spec)
    assert {link.link: link.lag_messages for link in standing.links}["versions"] == 0
    # What was published just before the kill may not have been counted any more.
    (rows,) = [t.rows for t in standing.tables if t.link == "versions" and t.rows]
    assert 0 < rows <= _ROWS * (last + 1) + 1

    code.write_text(CODE.replace("{version}", 'row["version"]'))
    replayed = [json.loads(_penstock("deadletters", "replay", str(case.file), "versions", "--json")) for _ in range(2)]

    assert [(len(each["replayed"]), len(each["replayed_before"])) for each in replayed] == [(1, 0), (0, 1)]
    assert sorted(_versions(case, topic)[3]) == list(range(last + 1))


def _change_until_killed_in_the_middle(case: Chain, topic: str) -> int:
    """Run the spolt on Spark, change every row on and on, and kill it while it publishes; return the last version."""
    log = case.file.with_name("run.log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", str(case.file), "--only", "versions"],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    version = 0
    try:
        with closing(open_topic_log(case.spec)) as reader:
            deadline = time.monotonic() + _WAIT_SECONDS
            while not sum(_ends(reader, topic).values()) and time.monotonic() < deadline and process.poll() is None:
                time.sleep(1)
            assert sum(_ends(reader, topic).values()), log.read_text()[-4000:]
        while version < _VERSIONS:
            version += 1
            case.write(f"UPDATE counters SET version = {version}")
            case.capture()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    return version


def _ends(reader: TopicLog, topic: str) -> Mapping[tuple[str, int], int]:
    return reader.ends([(topic, 0)])


def _versions(case: Chain, topic: str) -> dict[int, list[int]]:
    """The versions of each row in the output, in the order in which readers at read_committed see them."""
    found: dict[int, list[int]] = defaultdict(list)
    with closing(open_topic_log(case.spec)) as log, closing(open_subjects(case.spec)) as subjects:
        ranges = {place: (0, end) for place, end in _ends(log, topic).items()}
        for raws in log.read_messages(ranges, 1 << 30).values():
            for raw in raws:
                schema_id, content = split(raw.value or b"")
                value = avro_records(subjects.value_schema(schema_id)).decode(content)
                found[value["id"]].append(value["version"])
    return dict(found)


def _penstock(*arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


CONTACTS = """\
spolts:
  - name: contacts
    from: src_{name}.{name}.customers
    to: {name}.contacts
    transforms:
      - lookup: {{file: countries.csv, match: {{country: code}}, add: region}}
      - expression: {{name: gross, sql: "round(total * 1.19, 2)", type: "decimal(12,2)"}}
      - filter: gross >= 100 AND region IN ('EU', 'UK')
      - hash: {{columns: [email], salt_env: CONTACTS_SALT}}
      - mask: {{columns: phone, keep_last: 2}}
      - rename: {{id: customer}}
      - drop: [country, total]
"""


@pytest.mark.timeout(600)
def test_transforms_of_the_page_run_with_an_expression_that_spark_evaluates(
    tmp_path: Path,
    fresh_database: str,
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTACTS_SALT", "a salt that nobody guesses")
    (tmp_path / "countries.csv").write_text("code,region\nDE,EU\nGB,UK\nUS,NA\n")
    case = make_chain(tmp_path, fresh_database, mariadb, chain_parts, CONTACTS.format(name=fresh_database))
    text = case.file.read_text()
    case.file.write_text(text[: text.index("sinks:")])
    case.write(
        "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(40), phone VARCHAR(20), country CHAR(2), "
        "total DECIMAL(10,2))",
        "INSERT INTO customers VALUES (1, 'a@x', '030 1234', 'DE', 100), (2, 'b@x', '555', 'US', 900)",
        "INSERT INTO customers VALUES (3, 'c@x', NULL, 'GB', 84.02), (4, 'd@x', '7', 'DE', 84.04)",
    )
    case.start()
    case.write("UPDATE customers SET total = 50 WHERE id = 1", "UPDATE customers SET country = 'GB' WHERE id = 2")
    case.capture()

    _penstock("run", str(case.file), "--once", "--only", "contacts")

    with closing(open_topic_log(case.spec)) as log, closing(open_subjects(case.spec)) as subjects:
        ends = log.ends([(f"{fresh_database}.contacts", partition) for partition in range(3)])
        found = []
        for raws in log.read_messages({place: (0, end) for place, end in ends.items()}, 1 << 30).values():
            for raw in raws:
                schema_id, content = split(raw.value or b"")
                found.append(avro_records(subjects.value_schema(schema_id)).decode(content))
    told = [(each["op"], (each["after"] or each["before"])["customer"]) for each in found]
    assert sorted(told) == [("c", 2), ("d", 1), ("r", 1), ("r", 4)]
    rows = {each["after"]["customer"]: each["after"] for each in found if each["after"]}
    assert {number: (row["phone"], row["region"], str(row["gross"])) for number, row in rows.items()} == {
        1: ("******34", "EU", "119.00"),
        2: ("*55", "UK", "1071.00"),
        4: ("*", "EU", "100.01"),
    }
    assert all(len(row["email"]) == 64 and "total" not in row and "country" not in row for row in rows.values())
