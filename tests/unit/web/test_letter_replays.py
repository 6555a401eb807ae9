"""A replay that the page starts: what it answers whatever user code prints, and that it outlives nobody."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import SPOLT, served, until
from tests.unit.web.test_table_actions import replay
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.links.spolts.replay import Replayed
from penstock.web.replay_answers import ANSWER_BYTES_MAX, ReplayCounts, read_answer, write_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.web.shop import Shop

PRINTS = """\
import sys
print("{", end="")
sys.stderr.write("x" * 1_000_000)
raise ValueError("secret row")
"""
HANGS = """\
import os, time
from pathlib import Path
Path(__file__).with_name("pid").write_text(str(os.getpid()))
time.sleep(120)
"""
PAGE = """\
import asyncio, sys
from pathlib import Path
from penstock.web.replays import LetterReplays
asyncio.run(LetterReplays(Path(sys.argv[1])).replay("big_orders"))
"""


def give_code(shop: Shop, code: str) -> None:
    shop.file.write_text(shop.file.read_text() + SPOLT)
    shop.file.with_name("code.py").write_text(code)


@contextlib.contextmanager
def running(shop: Shop) -> Iterator[None]:
    """An instance that runs the pipeline, as far as one can see: something listens where its servers would."""
    with shop.held(), socket.create_server(("127.0.0.1", 0)) as server:
        for name in ("kafka", "schematizer"):
            (shop.spec.home / name).mkdir(parents=True, exist_ok=True)
            (shop.spec.home / name / "port").write_text(str(server.getsockname()[1]))
        yield


def answer_of(outcome: Replayed | PenstockError) -> ReplayCounts | PenstockError | None:
    with TemporaryFile() as file:
        write_answer(file.fileno(), outcome)
        file.seek(0)
        return read_answer(file.read(ANSWER_BYTES_MAX))


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (Replayed([], [], {}), "s: 0 dead letter(s) replayed"),
        (Replayed([1, 2], [0], {}), "s: 2 dead letter(s) replayed, 1 had been before"),
        (
            Replayed([1], [], {3: "no", 4: "nor that"}),
            "s: 1 dead letter(s) replayed, 2 failed again; the one at offset 3: no",
        ),
    ],
)
def test_what_a_replay_did_is_one_sentence(done: Replayed, said: str) -> None:
    answer = answer_of(done)

    assert isinstance(answer, ReplayCounts)
    assert answer.sentence("s") == said


def test_an_answer_is_short_however_many_letters_there_were_and_a_broken_one_is_none() -> None:
    many = answer_of(Replayed(list(range(1_000_000)), [], dict.fromkeys(range(1_000), "\U0001f600" * 100_000)))
    long = answer_of(UsageError("\U0001f600" * 100_000, "\U0001f600" * 100_000))

    assert isinstance(many, ReplayCounts)
    assert (many.replayed, many.failed, many.failed_offset) == (1_000_000, 1_000, 0)
    assert isinstance(long, UsageError)
    for content in (b"", b"{", b"{}", b"[1]", b"1", b"\xff", b'{"retryable": true}'):
        assert read_answer(content) is None, content


@pytest.mark.parametrize(
    ("error", "kind"), [(UnavailableError("m", "h"), UnavailableError), (UsageError("m", "h"), UsageError)]
)
def test_what_went_wrong_comes_as_what_it_was(error: PenstockError, kind: type[PenstockError]) -> None:
    answer = answer_of(error)

    assert isinstance(answer, kind)
    assert (answer.message, answer.hint) == ("m", "h")


def test_the_page_says_what_the_command_says_whatever_user_code_prints(shop: Shop) -> None:
    give_code(shop, PRINTS)
    shop.run()
    with running(shop), served(shop) as client:
        told = replay(client, "big_orders")

    assert (told.status_code, "ValueError" in told.json()["error"]) == (409, True)


def test_letters_whose_spolt_needs_spark_are_refused_with_another_way(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text() + NEEDS_SPARK)
    shop.run()
    with running(shop), served(shop) as client:
        told = replay(client, "big_orders")

    assert told.status_code == 409
    assert "spolt big_orders has expressions" in told.json()["error"]
    assert f"penstock snapshot {shop.file} TABLE --keys KEYS" in told.json()["hint"]


NEEDS_SPARK = """\
spolts:
  - name: big_orders
    from: shopdb.shop.orders
    to: big_orders
    transforms: [{expression: {name: twice, sql: 2 * total, type: bigint}}]
"""


def test_a_broker_that_does_not_answer_is_worth_trying_again(shop: Shop) -> None:
    give_code(shop, "")
    shop.run()
    with shop.held(), served(shop) as client:
        away = replay(client, "big_orders")

    assert (away.status_code, away.json()["hint"]) == (503, "try again in a moment")
    assert "its private kafka does not answer yet" in away.json()["error"]


def test_the_log_has_counts_and_not_what_user_code_says() -> None:
    counts = ReplayCounts(2, 0, 1, 7, "secret row")

    assert "secret row" in counts.sentence("s")
    assert counts.for_log() == {"replayed": 2, "replayed_before": 0, "failed": 1, "failed_offset": 7}


def test_a_replay_starts_no_servers_where_nobody_runs_the_pipeline(shop: Shop) -> None:
    give_code(shop, "")
    shop.run()
    with TemporaryFile() as file:
        command = ["deadletters", "replay", str(shop.file), "big_orders", "--answer-fd", str(file.fileno())]
        code = CliRunner().invoke(app, command).exit_code
        file.seek(0)
        answer = read_answer(file.read())

    assert (code, isinstance(answer, UsageError)) == (2, True)
    assert "nobody runs shop" in str(answer)
    assert not (shop.spec.home / "kafka").exists()


def test_a_replay_whose_user_code_hangs_dies_with_the_page_even_by_kill_9(shop: Shop, tmp_path: Path) -> None:
    give_code(shop, HANGS)
    pid = tmp_path / "pid"
    with running(shop):
        page = subprocess.Popen([sys.executable, "-c", PAGE, str(shop.file)])
        try:
            until(lambda: pid.exists() and pid.read_text(), 60)
        finally:
            page.send_signal(signal.SIGKILL)
            page.wait(10)

        until(lambda: has_ended(int(pid.read_text())))


def has_ended(pid: int) -> bool:
    """Whether a process is gone; one that nobody has waited for yet has no command line any more."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
