"""A MariaDB master with a replica, whose logs have other names and offsets."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pymysql
from tests.servers.source_log import connected

from penstock.embedded.mariadb import MariadbServer, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.servers.source_log import Source

_WAIT_SECONDS: Final = 60.0
_OTHER_DOMAIN: Final = 7


@dataclass(slots=True)
class Pair:
    """Two servers. `promote` makes the replica the master, whatever became of the first one."""

    master: MariadbServer
    replica: MariadbServer

    def replicate(self, *, by_gtid: bool = True, semi_sync: bool = False) -> None:
        """Let the replica follow the master from the start of its log."""
        if semi_sync:
            run(self.replica, "SET GLOBAL rpl_semi_sync_slave_enabled = 1")
            run(self.master, "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
            run(self.master, "SET GLOBAL rpl_semi_sync_master_timeout = 60000")
            run(self.master, "SET GLOBAL rpl_semi_sync_master_enabled = 1")
        m = self.master
        login = f"MASTER_HOST = '{m.host}', MASTER_PORT = {m.port}, MASTER_USER = '{m.user}'"
        place = "MASTER_USE_GTID = slave_pos" if by_gtid else "MASTER_USE_GTID = no"
        run(self.replica, f"CHANGE MASTER TO {login}, MASTER_PASSWORD = '{m.password}', {place}", "START SLAVE")
        if semi_sync:
            wait_for(lambda: value(m, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'", 1) == "1")

    def catch_up(self) -> None:
        """Return when the replica has executed all that the master has."""
        wanted = value(self.master, "SELECT @@gtid_binlog_pos")
        wait_for(lambda: str(wanted) in str(value(self.replica, "SELECT @@gtid_slave_pos")))

    def promote(self) -> None:
        """Let the replica apply what it has received, and be the master."""
        run(self.replica, "STOP SLAVE IO_THREAD")
        wait_for(lambda: "has read all relay log" in slave_status(self.replica)["Slave_SQL_Running_State"])
        run(self.replica, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")


class OpenPair(Protocol):
    """What starts a pair, for the length of a `with` block."""

    def __call__(
        self, *, files_ahead: tuple[int, int] = (0, 3), replica_options: Sequence[str] = ()
    ) -> AbstractContextManager[Pair]:
        """Logs begin with so many files that hold nothing of the other server."""


def copy_server(initialised: Path, home: Path) -> None:
    """Make the home of a server that was started and holds nothing, faster than its first start would.

    A log, and by what others know the first one, are its own.
    """
    own = shutil.ignore_patterns("binlog.*", "*.pid", "*.sock*", "auto.cnf")
    shutil.copytree(initialised / "data", home / "data", ignore=own)
    (home / "initialised").touch()


@contextmanager
def start_pair(
    initialised: Path, home: Path, *, files_ahead: tuple[int, int] = (0, 3), replica_options: Sequence[str] = ()
) -> Iterator[Pair]:
    """Start two servers as `OpenPair` says, which begin as copies of the one at `initialised`."""
    for name in ("one", "two"):
        copy_server(initialised, home / name)
    with ExitStack() as stack:
        master = stack.enter_context(start_mariadb(home / "one"))
        options = ["--server-id=2", "--log-bin=elsewhere", "--log-slave-updates=ON", *replica_options]
        replica = stack.enter_context(start_mariadb(home / "two", options=options))
        for server, files in zip((master, replica), files_ahead, strict=True):
            _fill(server, files)
        yield Pair(master, replica)


def _fill(server: Source, files: int) -> None:
    """Write what is nobody's business into a log, in a domain of its own so that replication does not mind."""
    if not files:
        return
    domain = _OTHER_DOMAIN + int(str(value(server, "SELECT @@server_id")))
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION gtid_domain_id = {domain}")
        cursor.execute(f"CREATE DATABASE scratch_{domain}")
        cursor.execute(f"CREATE TABLE scratch_{domain}.noise (a INT, b VARCHAR(200))")
        for number in range(files):
            cursor.execute(f"INSERT INTO scratch_{domain}.noise VALUES ({number}, REPEAT('x', {50 + number}))")
            cursor.execute("FLUSH BINARY LOGS")


def run(server: Source, *statements: str) -> None:
    """Run statements over one connection, each a transaction."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def value(server: Source, sql: str, column: int = 0) -> object:
    """One column of the first row, None without rows."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return None if row is None else row[column]


def slave_status(server: Source) -> dict[str, str]:
    """What a replica says of its replication."""
    with closing(connected(server)) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW SLAVE STATUS")
        return {name: str(found) for name, found in (cursor.fetchone() or {}).items()}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds; TimeoutError after a minute."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
