"""A table through user code into a topic: killed again and again, with a message that the code cannot take."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING

from tests.servers.chain import make_chain

from penstock.config.crash_points import VARIABLE
from penstock.core.avro.wire import split
from penstock.core.spolts.avro_records import avro_records
from penstock.faults.round import carry_apart
from penstock.jobs.in_process import carry
from penstock.wiring.open import open_subjects, open_topic_log
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
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
_ROWS = 40
_KILLS = ("publisher.opened", "publish.messages_sent", "publish.sent", "publish.committed") * 2


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

    last = len(_KILLS)
    for version, point in enumerate(_KILLS, 1):
        case.write(f"UPDATE counters SET version = {version}")
        case.capture()
        log = tmp_path / "killed.log"
        assert carry_apart(case.file, "versions", {VARIABLE: point}, log) == -signal.SIGKILL, log.read_text()
    case.write("DELETE FROM counters WHERE id = 5")
    case.capture()
    carry(case.spec, "versions")

    found = _versions(case, topic)
    assert found.pop(3) == [number for number in range(last + 1) if number != 7]
    assert found.pop(5) == [*range(last + 1), last]
    assert found == {number: list(range(last + 1)) for number in range(_ROWS) if number not in {3, 5}}
    status = read_status(case.spec)
    assert {link.link: link.lag_messages for link in status.links}["versions"] == 0
    # What was published just before the kill may not have been counted any more.
    (rows,) = [t.rows for t in status.tables if t.link == "versions" and t.rows]
    assert 0 < rows <= _ROWS * (last + 1) + 1

    code.write_text(CODE.replace("{version}", 'row["version"]'))
    replayed = [json.loads(_penstock("deadletters", "replay", str(case.file), "versions", "--json")) for _ in range(2)]

    assert [(len(each["replayed"]), len(each["replayed_before"])) for each in replayed] == [(1, 0), (0, 1)]
    assert sorted(_versions(case, topic)[3]) == list(range(last + 1))


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
