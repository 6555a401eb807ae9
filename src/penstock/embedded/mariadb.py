"""A private MariaDB server: a source with a binlog, or a schema tracker without one.

Settings are those of the MariaDB Server documentation, "mariadbd options".
"""

from __future__ import annotations

import enum
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from penstock.core.errors import PenstockError, UsageError
from penstock.embedded.debian import DebianPackage, Prefix, ensure_prefix
from penstock.embedded.initial_data import begin_data
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready
from penstock.embedded.secrets import kept_secret, make_private, write_private
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NEWER = DebianPackage("trixie", "mariadb-server-core")
"""MariaDB 11.8, for what the release that most machines have does not know yet."""

INSTALL_COMMAND = "sudo apt-get install -y mariadb-server"
USER = "penstock"
PASSWORD = "penstock"  # noqa: S105 - a server on loopback for development, whose password is in the documentation

INIT_FILE = "init.sql"
_START_SECONDS = 120.0
_INIT_SECONDS = 180.0
# Debian keeps servers in sbin, which is not in the PATH of ordinary users.
_SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])

_SETTINGS = """\
[mariadbd]
datadir={data}
# Its own: at its start a server removes from there what it takes for left over, other servers' tables too.
tmpdir={tmp}
bind-address={host}
port={port}
# Relative to the data directory: a socket's whole path may have 107 bytes only.
socket=mariadb.sock
pid-file=mariadb.pid
skip-name-resolve
skip-external-locking
character-set-server=utf8mb4
default-time-zone=+00:00
performance-schema=OFF
max-allowed-packet=1G
local-infile=OFF
"""

_SOURCE_SETTINGS = """\
server-id=1
log-bin=binlog
binlog-format=ROW
binlog-row-image=FULL
binlog-row-metadata=FULL
max-binlog-size={max_binlog_size_bytes}
gtid-domain-id=0
gtid-strict-mode=ON
sync-binlog=1
innodb-flush-log-at-trx-commit=1
innodb-buffer-pool-size=128M
"""

_TRACKER_SETTINGS = """\
skip-log-bin
secure-file-priv={tmp}
innodb-buffer-pool-size=16M
innodb-log-file-size=8M
innodb-flush-log-at-trx-commit=2
key-buffer-size=1M
aria-pagecache-buffer-size=8M
table-open-cache=200
max-connections=20
"""

# Of a server that is run where it was unpacked.
_PREFIX_SETTINGS = """\
basedir={usr}
plugin-dir={usr}/lib/mysql/plugin
lc-messages-dir={usr}/share/mariadb
character-sets-dir={usr}/share/mariadb/charsets
"""

# What mariadb-install-db, which knows installed servers only, gives to `mariadbd --bootstrap`.
_BOOTSTRAP_FILES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)
_BOOTSTRAP_BEGIN = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = 'root';\n"

_INIT_SQL = """\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS '{user}'@'{host}' IDENTIFIED BY '{password}';
ALTER USER '{user}'@'{host}' IDENTIFIED BY '{password}';
GRANT ALL PRIVILEGES ON *.* TO '{user}'@'{host}' WITH GRANT OPTION;
"""


_TRACKER_LACKS = """\
REVOKE FILE, SHUTDOWN, SUPER, GRANT OPTION ON *.* FROM '{user}'@'{host}';
"""


class Flavour(enum.Enum):
    """What the server is for."""

    SOURCE = "source"
    TRACKER = "tracker"


@dataclass(frozen=True, slots=True)
class MariadbServer(OneProcessServer):
    """A running MariaDB; `user` has all rights."""

    user: str = USER
    password: str = PASSWORD

    def facts(self) -> Mapping[str, str | int]:
        """Address, user and password."""
        return {**OneProcessServer.facts(self), "user": self.user, "password": self.password}


def start_mariadb(
    home: Path,
    flavour: Flavour = Flavour.SOURCE,
    *,
    port: int | None = None,
    max_binlog_size_bytes: int = 1 << 30,
    package: DebianPackage | None = None,
    options: Sequence[str] = (),
) -> MariadbServer:
    """Start a server with its data under `home`; the first start initialises it, later ones find the data and port.

    `max_binlog_size_bytes` is where the binlog rotates (at least 4096; sources
    only). `package` is the server to run, None for the one that is installed;
    `options` are further ones for mariadbd. Raises UsageError without MariaDB on
    the machine, where the package cannot be had, or when the port is in use.
    """
    home = home.resolve()
    prefix = None if package is None else ensure_prefix(package)
    program = [find_program("mariadbd")] if prefix is None else prefix.command("sbin/mariadbd")
    make_private(home)
    chosen, password = choose_port(home / "port", port), write_logins(home, flavour, _INIT_SQL)
    settings = _write_settings(home, flavour, chosen, max_binlog_size_bytes)
    if prefix is not None:
        with settings.open("a") as opened:
            opened.write(_PREFIX_SETTINGS.format(usr=prefix.usr))
    log = home / "mariadb.log"
    server = [*program, f"--defaults-file={settings}", *_as_root()]
    with _plain_path(home) as plain:
        first = _init_command(plain) if prefix is None else _bootstrap_command(home, server, prefix)
        _initialise(home, Path(program[-1]), flavour, lambda: _make_data(home, first, log))
    child = start_child(f"MariaDB ({flavour.value})", [*server, f"--init-file={home / INIT_FILE}", *options], log)
    wait_until_ready(child, lambda: answers(chosen, password), _START_SECONDS)
    return MariadbServer(chosen, home, child, password=password)


def write_logins(home: Path, flavour: Flavour, grant: str) -> str:
    """Write the SQL that makes our user at each start, by `grant`; return its password.

    A source for development has one that everybody knows. A tracker has one of its
    home's own, and its user touches no files.
    """
    is_tracker = flavour is Flavour.TRACKER
    password = kept_secret(home / "password") if is_tracker else PASSWORD
    text = grant + (_TRACKER_LACKS if is_tracker else "")
    write_private(home / INIT_FILE, text.format(user=USER, host=LOOPBACK, password=password))
    return password


def _write_settings(home: Path, flavour: Flavour, port: int, max_binlog_size_bytes: int) -> Path:
    """Write the server's option file; its path."""
    scratch = home / "tmp"
    scratch.mkdir(exist_ok=True)
    text = _SETTINGS.format(data=home / "data", tmp=scratch, host=LOOPBACK, port=port)
    match flavour:
        case Flavour.SOURCE:
            text += _SOURCE_SETTINGS.format(max_binlog_size_bytes=max_binlog_size_bytes)
        case Flavour.TRACKER:
            text += _TRACKER_SETTINGS.format(tmp=scratch)
    settings = home / "mariadb.cnf"
    settings.write_text(text)
    return settings


def _initialise(home: Path, program: Path, flavour: Flavour, make: Callable[[], None]) -> None:
    """Have the system tables, unless an earlier start came to the end of that."""
    done = home / "initialised"
    if done.exists():
        return
    shutil.rmtree(home / "data", ignore_errors=True)
    begin_data(home / "data", program, [flavour.value, _SETTINGS, _SOURCE_SETTINGS, _TRACKER_SETTINGS], make)
    done.touch()


def _make_data(home: Path, command: Sequence[str], log: Path) -> None:
    """Create the system tables."""
    (home / "data").mkdir()
    run_to_end("the first start of MariaDB", command, log, _INIT_SECONDS)
    # The program may fail without saying so by its exit code.
    if not any((home / "data" / "mysql").glob("global_priv.*")):
        message = f"the first start of MariaDB made no system tables under {home / 'data'}"
        raise PenstockError(message, f"read {log}, remove the cause and try again")


@contextmanager
def _plain_path(home: Path) -> Iterator[Path]:
    """Yield a path to `home` without blanks: the program that makes system tables, a shell script, understands none."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        plain = Path(folder, "home")
        plain.symlink_to(home)
        yield plain


def _init_command(home: Path) -> list[str]:
    """How an installed server makes its system tables."""
    return [
        find_program("mariadb-install-db"),
        f"--defaults-file={home / 'mariadb.cnf'}",
        f"--datadir={home / 'data'}",
        "--auth-root-authentication-method=socket",
        "--skip-test-db",
        *_as_root(),
    ]


def _bootstrap_command(home: Path, server: Sequence[str], prefix: Prefix) -> list[str]:
    """How an unpacked server makes its system tables: from statements in its standard input."""
    script = home / "bootstrap.sql"
    scripts = [(prefix.usr / "share" / "mariadb" / name).read_text() for name in _BOOTSTRAP_FILES]
    script.write_text(_BOOTSTRAP_BEGIN + "".join(scripts))
    return ["sh", "-c", 'exec "$@" < "$0"', str(script), *server, "--bootstrap", "--skip-log-bin"]


def _as_root() -> list[str]:
    """The option without which MariaDB refuses uid 0.

    Any other user would make it call setuid(2), which clears the signal that
    ties it to us.
    """
    return ["--user=root"] if os.geteuid() == 0 else []


def find_program(name: str) -> str:
    """The path of one of MariaDB's programs; UsageError where it is not installed."""
    found = shutil.which(name, path=_SEARCH_PATH)
    if found is None:
        message = f"MariaDB's program {name} is not on this machine"
        raise UsageError(message, f"type: {INSTALL_COMMAND}")
    return found


def answers(port: int, password: str) -> bool:
    """Whether our user can log in."""
    if not is_listening(port):
        return False
    try:
        pymysql.connect(
            host=LOOPBACK, port=port, user=USER, password=password, connect_timeout=5, ssl_disabled=True
        ).close()
    except pymysql.err.MySQLError:
        return False
    return True
