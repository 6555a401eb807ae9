"""What is said of a log that cannot be read on is true: what a hint says brings all rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.chain import Chain, make_chain

from penstock.core.errors import PenstockError, UnfitServerError, UsageError
from penstock.wiring.capture_kinds import capture_kind

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE t (id INT PRIMARY KEY, x LONGTEXT)", "INSERT INTO t VALUES (1, 'a')")
    return chain


def differing(chain: Chain) -> object:
    """What the target and the source have, where that is not the same."""
    with chain.cursor() as cursor:
        cursor.execute("SELECT id, md5(x) FROM t ORDER BY id")
        there = list(cursor.fetchall())
    here = chain.query("SELECT id, md5(x) FROM {schema}.t ORDER BY id")
    return None if here == there else (here, there)


def write_file(chain: Chain, before: str, after: str) -> None:
    text = chain.file.read_text()
    assert before in text
    chain.file.write_text(text.replace(before, after))


def anew(chain: Chain) -> Chain:
    """Another `pipeline` name, source `name`, `home` and target, which is in its home."""
    text = chain.file.read_text().replace(str(chain.spec.home), f"{chain.spec.home}_anew")
    text = text.replace(f"pipeline: {chain.name}", f"pipeline: {chain.name}_anew")
    file = chain.file.with_name("anew.yaml")
    file.write_text(text.replace(f"src_{chain.name}", f"anew_{chain.name}"))
    return Chain(file, chain.name, chain.server)


@dataclass(frozen=True, slots=True)
class Broken:
    """What ends a log: statements, what is said, and what follows from the hint, if that is not a new pipeline."""

    statements: tuple[str, ...]
    said: str
    in_file: tuple[str, str] | None = None
    mended: tuple[str, ...] = ()


BROKEN = {
    "purged": Broken(
        ("INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS"), "keep binlogs for longer (binlog_expire_logs_seconds)"
    ),
    "reset": Broken(("RESET MASTER", "INSERT INTO t VALUES (2, 'b')"), "the log was reset"),
    "statements in XA": Broken(
        (
            "SET SESSION binlog_format = 'STATEMENT'",
            "XA START 'statement'",
            "INSERT INTO t VALUES (2, 'b')",
            "XA END 'statement'",
            "XA PREPARE 'statement'",
        ),
        "set binlog_format=ROW for every session that writes",
        mended=("XA COMMIT 'statement'",),
    ),
    "prepared": Broken(
        (
            "XA START 'large'",
            "INSERT INTO t VALUES (2, repeat('x', 1536 * 1024))",
            "XA END 'large'",
            "XA PREPARE 'large'",
        ),
        "give the source a larger prepared_xa_mebibytes_max and run again",
        ("prepared_xa_mebibytes_max: 1", "prepared_xa_mebibytes_max: 2"),
        ("XA COMMIT 'large'",),
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_log_that_cannot_be_read_on_is_gone_on_from_as_its_hint_says(chain: Chain, broken: Broken) -> None:
    write_file(chain, "start: snapshot", "start: snapshot\n    prepared_xa_mebibytes_max: 1")
    chain.start()
    chain.carry()
    chain.write(*broken.statements)
    if broken is BROKEN["purged"]:
        with chain.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            purge_to(cursor, (cursor.fetchone() or ())[0])

    with pytest.raises(PenstockError) as caught:
        chain.capture(2)
    assert broken.said in caught.value.hint
    chain.write(*broken.mended)
    if broken.in_file:
        write_file(chain, *broken.in_file)
    else:
        assert "start a new pipeline with an initial snapshot" in caught.value.hint
        chain = anew(chain)
        chain.start()
    chain.write("INSERT INTO t VALUES (3, 'c')")
    chain.capture(3)
    chain.write_objects()
    chain.load()

    assert differing(chain) is None


def refusal(chain: Chain) -> str:
    """What a run asks before it starts, and the start: the hint of what is refused, "" if nothing is."""
    (source,) = chain.spec.sources
    try:
        capture_kind(source).require_fit(source)
        chain.start()
    except (UnfitServerError, UsageError) as error:
        return error.hint
    return ""


SETTINGS = {"binlog_format": ("STATEMENT", "ROW"), "binlog_row_image": ("MINIMAL", "FULL")}


@pytest.mark.nightly
def test_a_server_with_settings_that_do_not_fit_is_captured_when_they_are_as_the_hint_says(chain: Chain) -> None:
    for name, (unfit, _) in SETTINGS.items():
        chain.write(f"SET GLOBAL {name} = '{unfit}'")
    try:
        hint = refusal(chain)
    finally:
        for name, (_, fit) in SETTINGS.items():
            chain.write(f"SET GLOBAL {name} = '{fit}'")
    assert all(f"set {name}={fit}" in hint for name, (_, fit) in SETTINGS.items())
    assert refusal(chain) == ""
    chain.write("INSERT INTO t VALUES (2, 'b')")
    chain.carry()

    assert differing(chain) is None


@pytest.mark.nightly
def test_a_user_gets_all_that_a_capture_needs_from_the_grants_that_the_hints_name(chain: Chain) -> None:
    user = f"poor_{chain.name}"[:60]
    chain.write(f"CREATE USER {user}@'%' IDENTIFIED BY '{chain.server.password}'")
    write_file(chain, f"port: {chain.server.port}\n    user: penstock", f"port: {chain.server.port}\n    user: {user}")
    granted = 0
    while (hint := refusal(chain)) and granted < 9:
        grants = re.findall(r"GRANT [^.]+[.][*] TO \w+", hint)
        assert grants, hint
        chain.write(*grants)
        granted += len(grants)
    chain.write("INSERT INTO t VALUES (2, 'b')")
    chain.carry()

    assert granted
    assert differing(chain) is None
    chain.write(f"DROP USER {user}@'%'")
