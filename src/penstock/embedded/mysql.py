"""A private Oracle MySQL server, from Debian unstable: a source with a binlog, or a schema tracker without one.

Debian's stable releases have MariaDB only. Settings are those of the MySQL
Reference Manual, "Server Option and Variable Reference".
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.embedded.debian import DebianPackage, ensure_prefix, prefix_directory
from penstock.embedded.initial_data import begin_data
from penstock.embedded.mariadb import INIT_FILE, PASSWORD, USER, Flavour, answers, write_logins
from penstock.embedded.ports import LOOPBACK, choose_port
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready
from penstock.embedded.secrets import make_private
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

PACKAGE = DebianPackage("sid", "mysql-server-core")

_START_SECONDS = 120.0
_INIT_SECONDS = 180.0
_FIRST_START = "mysqld --initialize-insecure"

_SETTINGS = """\
[mysqld]
basedir={usr}
plugin-dir={usr}/lib/mysql/plugin
lc-messages-dir={usr}/share/mysql
character-sets-dir={usr}/share/mysql/charsets
datadir={data}
bind-address={host}
port={port}
# Relative to the data directory: a socket's whole path may have 107 bytes only.
socket=mysql.sock
pid-file={data}/mysql.pid
mysqlx=OFF
secure-file-priv=NULL
skip-name-resolve
skip-external-locking
character-set-server=utf8mb4
default-time-zone=+00:00
performance-schema=OFF
max-allowed-packet=1G
"""

_SOURCE_SETTINGS = """\
server-id=1
log-bin=binlog
binlog-format=ROW
binlog-row-image=FULL
binlog-row-metadata=FULL
max-binlog-size={max_binlog_size_bytes}
gtid-mode=ON
enforce-gtid-consistency=ON
sync-binlog=1
innodb-flush-log-at-trx-commit=1
innodb-buffer-pool-size=128M
"""

_TRACKER_SETTINGS = """\
skip-log-bin
innodb-buffer-pool-size=16M
innodb-redo-log-capacity=8M
innodb-flush-log-at-trx-commit=2
key-buffer-size=1M
table-open-cache=200
max-connections=20
"""

# One statement in each line: the server reads the file so.
_INIT_SQL = """\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS '{user}'@'{host}' IDENTIFIED BY '{password}';
ALTER USER '{user}'@'{host}' IDENTIFIED BY '{password}';
GRANT ALL PRIVILEGES ON *.* TO '{user}'@'{host}' WITH GRANT OPTION;
"""


@dataclass(frozen=True, slots=True)
class OracleMysql(OneProcessServer):
    """A running MySQL; `user` has all rights."""

    user: str = USER
    password: str = PASSWORD

    def facts(self) -> Mapping[str, str | int]:
        """Address, user and password."""
        return {**OneProcessServer.facts(self), "user": self.user, "password": self.password}


def fetch_mysql(say: Callable[[str], None]) -> None:
    """Have MySQL's programs on this machine, and say so if they must be fetched. Raises as `start_mysql` does."""
    if not prefix_directory(PACKAGE).exists():
        say("fetching MySQL from Debian unstable, this once")
        ensure_prefix(PACKAGE)


def start_mysql(
    home: Path,
    flavour: Flavour = Flavour.SOURCE,
    *,
    port: int | None = None,
    max_binlog_size_bytes: int = 1 << 30,
    options: Sequence[str] = (),
) -> OracleMysql:
    """Start a server with its data under `home`; the first start initialises it, later ones find the data and port.

    `max_binlog_size_bytes` is where the binlog rotates (at least 4096; sources
    only), `options` are further ones for mysqld (`--gtid-mode=OFF`). The first
    call on a machine fetches 60 MB. Raises UsageError where they cannot be had,
    or when the port is in use.
    """
    home = home.resolve()
    prefix = ensure_prefix(PACKAGE)
    make_private(home)
    chosen, password = choose_port(home / "port", port), write_logins(home, flavour, _INIT_SQL)
    settings = home / "mysql.cnf"
    text = _SETTINGS.format(usr=prefix.usr, data=home / "data", host=LOOPBACK, port=chosen)
    match flavour:
        case Flavour.SOURCE:
            text += _SOURCE_SETTINGS.format(max_binlog_size_bytes=max_binlog_size_bytes)
        case Flavour.TRACKER:
            text += _TRACKER_SETTINGS
    settings.write_text(text)
    log = home / "mysql.log"
    server = [*prefix.command("sbin/mysqld"), f"--defaults-file={settings}", *_as_root()]
    # No log from this start: the first one of a source begins with what its user does.
    first = [*server, "--initialize-insecure", "--skip-log-bin"]
    program = prefix.usr / "sbin" / "mysqld"
    _initialise(home, program, flavour, lambda: run_to_end(_FIRST_START, first, log, _INIT_SECONDS))
    # Not among the settings: with --initialize it would be run before there are any tables of users.
    child = start_child(f"MySQL ({flavour.value})", [*server, f"--init-file={home / INIT_FILE}", *options], log)
    wait_until_ready(child, lambda: answers(chosen, password), _START_SECONDS)
    return OracleMysql(chosen, home, child, password=password)


def _initialise(home: Path, program: Path, flavour: Flavour, make: Callable[[], None]) -> None:
    """Have the system tables, unless an earlier start came to the end of that."""
    done = home / "initialised"
    if done.exists():
        return
    shutil.rmtree(home / "data", ignore_errors=True)
    begin_data(home / "data", program, [flavour.value, _SETTINGS, _SOURCE_SETTINGS, _TRACKER_SETTINGS], make)
    done.touch()


def _as_root() -> list[str]:
    """The option without which MySQL refuses uid 0."""
    return ["--user=root"] if os.geteuid() == 0 else []
