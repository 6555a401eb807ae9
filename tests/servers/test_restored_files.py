"""A file that is gone, or that a power cut has left empty, is written again from its topic, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

from penstock.config.places import objects_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def make(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> Callable[[str], Chain]:
    """Make a chain whose messages are of a format, and which has captured all there is."""

    def made(format_: str) -> Chain:
        chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
        chain.use_format(format_)
        chain.write("CREATE TABLE orders (id INT PRIMARY KEY, n VARCHAR(20))", "CREATE TABLE log_lines (line TEXT)")
        chain.start()
        chain.carry()
        chain.write("INSERT INTO orders SELECT seq, CONCAT('n', seq) FROM seq_1_to_500")
        chain.write("ALTER TABLE orders ADD COLUMN m INT", "UPDATE orders SET m = id WHERE id % 2 = 0")
        chain.write("INSERT INTO log_lines VALUES ('a'), ('b')", "DELETE FROM orders WHERE id = 7")
        chain.capture()
        return chain

    return made


def files(chain: Chain) -> dict[Path, bytes]:
    folder = Path(objects_url(chain.spec).removeprefix("file://"))
    return {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}


@pytest.mark.parametrize(("messages", "format_"), first(1, ("avro", "parquet"), ("json", "parquet"), ("avro", "csv")))
def test_files_that_are_gone_or_empty_are_written_again_and_loaded(
    make: Callable[[str], Chain], messages: str, format_: str
) -> None:
    chain = make(messages)
    chain.file.write_text(chain.file.read_text() + f"objects: {{format: {format_}, inline_bytes_max: 0}}\n")
    before = files(chain)
    chain.write_objects()
    written = {file: content for file, content in files(chain).items() if file not in before}
    for index, file in enumerate(sorted(written)):
        if index % 2:
            file.unlink()
        else:
            file.write_bytes(b"")

    with capture_logs() as logs:
        chain.load()

    assert len(written) >= 3
    assert {file: files(chain)[file] for file in written} == written
    assert sum(log["event"].startswith("a file that was gone is written again") for log in logs) == len(written)
    rows = chain.query("SELECT count(*), sum(m), max(n) FROM {schema}.orders")
    assert rows == [(499, sum(range(2, 501, 2)), "n99")]
    assert chain.query("SELECT line FROM {schema}.log_lines ORDER BY line") == [("a",), ("b",)]
