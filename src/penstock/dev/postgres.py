"""A private PostgreSQL server, for state databases.

Settings are those of the PostgreSQL documentation, "Server Configuration".
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from penstock.core.errors import UsageError
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INSTALL_COMMAND = "sudo apt-get install -y postgresql"
USER = "penstock"
PASSWORD = "penstock"  # noqa: S105 - a server on loopback for development, whose password is in the documentation
DATABASE = "postgres"

_START_SECONDS = 60.0
_INIT_SECONDS = 120.0
_FORMER_SECONDS = 10.0
_POLL_SECONDS = 0.1
# Debian keeps each version in a directory of its own, none of which is in PATH.
_DEBIAN = Path("/usr/lib/postgresql")
_OTHER_USERS = ("postgres", "nobody")

_SETTINGS = """\
listen_addresses = '{host}'
port = {port}
# None: a socket's whole path may have 107 bytes only.
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 50
wal_level = logical
timezone = UTC
log_timezone = UTC
lc_messages = C
"""


@dataclass(frozen=True, slots=True)
class PostgresServer(OneProcessServer):
    """A running PostgreSQL; `user` has all rights."""

    user: str = USER
    password: str = PASSWORD
    database: str = DATABASE

    def stop(self) -> None:
        """Shut it down in order, without waiting for clients to go."""
        self.child.stop(self.STOP_SECONDS, signal.SIGINT)

    def facts(self) -> Mapping[str, str | int]:
        """Address, user and password, and all of it as a config's state.url takes it."""
        url = f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"
        login = {"user": self.user, "password": self.password, "database": self.database}
        return {**OneProcessServer.facts(self), **login, "url": url}


def start_postgres(home: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None) -> PostgresServer:
    """Start a server with its data under `home`; the first start initialises it, later ones find the data and port.

    `settings` are added to those of its configuration file that are set here.
    Raises UsageError without PostgreSQL on the machine or when the port is in use.
    """
    home = home.resolve()
    programs = find_programs()
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    log = home / "postgres.log"
    _initialise(home, programs, log)
    # Behind the ones that initdb wrote: the last setting of a name counts.
    file = home / "penstock.conf"
    more = "".join(f"{name} = '{value}'\n" for name, value in (settings or {}).items())
    file.write_text(_SETTINGS.format(host=LOOPBACK, port=chosen) + more)
    (home / "data" / "postgresql.auto.conf").write_text(f"include '{file}'\n")
    _wait_for_former(home / "data")
    child = start_child("PostgreSQL", _unprivileged([str(programs / "postgres"), "-D", str(home / "data")]), log)
    wait_until_ready(child, lambda: _answers(chosen), _START_SECONDS)
    return PostgresServer(chosen, home, child)


def _wait_for_former(data: Path) -> None:
    """Let a server that was there before, and whose owner was killed a moment ago, end: it still has the data."""
    deadline = time.monotonic() + _FORMER_SECONDS
    while time.monotonic() < deadline:
        try:
            pid = (data / "postmaster.pid").read_text().split("\n", 1)[0]
            command = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            return
        # What has ended and was not asked how yet has no command any more, and PostgreSQL takes it for alive.
        if command and str(data).encode() not in command:
            return
        time.sleep(_POLL_SECONDS)


def find_programs() -> Path:
    """The directory of PostgreSQL's programs, of the newest version; UsageError where it is not installed."""
    versions = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda file: int(re.sub(r"\D", "", file.parts[-3]) or 0))
    found = shutil.which("postgres") or (str(versions[-1]) if versions else None)
    if found is None:
        message = "PostgreSQL's program postgres is not on this machine"
        raise UsageError(message, f"type: {INSTALL_COMMAND}")
    return Path(found).parent


def _initialise(home: Path, programs: Path, log: Path) -> None:
    """Create the system tables, unless an earlier start did so to the end."""
    done, data = home / "initialised", home / "data"
    if done.exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    other = _other_user()
    if other is not None:
        os.chown(data, other.pw_uid, other.pw_gid)
    password = home / "password"
    password.write_text(PASSWORD)
    options = ["--username", USER, "--pwfile", str(password), "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
    initdb = [str(programs / "initdb"), "--pgdata", str(data), *options, "--no-sync"]
    run_to_end("initdb", _unprivileged(initdb), log, _INIT_SECONDS)
    password.unlink()
    done.touch()


def _unprivileged(command: Sequence[str]) -> list[str]:
    """Run `command` as another user where we are root, as whom PostgreSQL refuses to run (setpriv(1)).

    It keeps the right to pass through directories of ours. To change the user
    clears the signal that ties a process to us, so it is tied once more.
    """
    other = _other_user()
    if other is None:
        return list(command)
    program = shutil.which("setpriv")
    if program is None:
        message = "PostgreSQL does not run as root, and there is no setpriv to run it as somebody else"
        raise UsageError(message, "type: sudo apt-get install -y util-linux, or do not be root")
    ids = [f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups"]
    rights = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return [program, *ids, *rights, "--pdeathsig=KILL", "--", *tethered(command)]


def _other_user() -> pwd.struct_passwd | None:
    """Whom to be in place of root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return next(users[name] for name in _OTHER_USERS if name in users)


def _answers(port: int) -> bool:
    """Whether our user can log in."""
    if not is_listening(port):
        return False
    login = {"host": LOOPBACK, "port": port, "user": USER, "password": PASSWORD, "dbname": DATABASE}
    try:
        psycopg.connect(**login, connect_timeout=5).close()  # type: ignore[arg-type]  # the names are libpq's
    except psycopg.Error:
        return False
    return True
