"""`penstock failover`, as an operator types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.servers.failover.pair import run

from penstock.embedded.mariadb import PASSWORD
from penstock.wiring.open import open_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair

    from penstock.embedded.mariadb import MariadbServer


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    environment = {**os.environ, "CASE_PASSWORD": PASSWORD}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_an_operator_fails_a_source_over(
    open_pair: OpenPair, tracker_server: MariadbServer, make_case: Callable[..., Case]
) -> None:
    with open_pair() as pair:
        pair.replicate()
        run(pair.master, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        case = make_case(pair.master, tracker_server, start="snapshot")
        case.start()
        run(pair.master, "INSERT INTO shop.t VALUES (1)", "INSERT INTO shop.t VALUES (2)")
        pair.catch_up()
        pair.master.kill()
        pair.promote()
        file, to = str(case.file), f"{pair.replica.host}:{pair.replica.port}"

        lock = open_lock(case.spec)
        assert lock.acquire(0.0)
        led = penstock("failover", file, case.source, "--to", to)
        lock.release()
        wrong = penstock("failover", file, "nobody", "--to", to)
        nowhere = penstock("failover", file, case.source, "--to", "here")
        done = penstock("failover", file, case.source, "--to", to)
        again = penstock("failover", file, case.source, "--to", to, "--json")
        case.move(pair.replica)
        case.carry()

        assert (led.returncode, wrong.returncode, nowhere.returncode) == (1, 2, 2)
        assert "another instance of pipeline" in led.stderr
        assert f"its sources are: {case.source}" in wrong.stderr
        assert "write it as HOST:PORT" in nowhere.stderr
        assert done.returncode == 0, done.stderr
        assert f"{case.source} goes on at {to}" in done.stdout
        assert "after it      2 transaction(s) to be carried" in done.stdout
        assert "1 table(s) compared: all are as they were on the old master" in done.stdout
        assert f"Now write {to} into {file}" in done.stdout
        told = json.loads(again.stdout)
        assert (told["changed"], told["after"]["era"], told["after"]["server"]) == (False, 1, "server_id 2")
        assert [c.after for c in case.changes("shop.t")] == [{"id": 1}, {"id": 2}]
