"""Starting the stand-in: its own environment, installed once, and its process."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.ports import choose_port, is_listening
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCOUNT = "penstock"
USER = "penstock"
PASSWORD = "Penstock1"  # noqa: S105 - a server on loopback for development, whose password is in the documentation
DATABASE = "DEV"

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_INSTALL_SECONDS = 600.0
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SnowflakeServer(OneProcessServer):
    """A running stand-in. It takes any login, and makes a database when somebody connects to it."""

    account: str = ACCOUNT
    user: str = USER
    password: str = PASSWORD
    database: str = DATABASE

    def facts(self) -> Mapping[str, str | int]:
        """Address, login and database, as a sink takes them."""
        login = {"account": self.account, "user": self.user, "password": self.password, "database": self.database}
        return {**OneProcessServer.facts(self), "protocol": "http", **login}


def start_snowflake(home: Path, *, port: int | None = None) -> SnowflakeServer:
    """Start a stand-in with its data under `home`; the first start on a machine installs its environment.

    Raises UsageError when the port is in use, PenstockError when the environment cannot be installed.
    """
    home = home.resolve()
    (home / "data").mkdir(parents=True, exist_ok=True)
    python = ensure_environment(home / "install.log")
    chosen = choose_port(home / "port", port)
    command = [str(python), "-m", "penstock.dev.snowflake.server", str(home / "data"), str(chosen)]
    environment = {"PYTHONPATH": str(_own_path(home)), "PYTHONUNBUFFERED": "1"}
    child = start_child("Snowflake's stand-in", command, home / "snowflake.log", environment)
    wait_until_ready(child, lambda: is_listening(chosen), _START_SECONDS)
    return SnowflakeServer(chosen, home, child)


def ensure_environment(log: Path) -> Path:
    """Return the Python of the stand-in's own environment, which is made first where this machine has none."""
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = cache_directory("environments") / f"snowflake-{minor}-{digest}"
    python = environment / "bin" / "python"
    with locked(environment.with_suffix(".lock")):
        if not (environment / "complete").exists():
            run_to_end("venv", [sys.executable, "-m", "venv", "--clear", str(environment)], log, _INSTALL_SECONDS)
            install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(_REQUIREMENTS)]
            run_to_end("pip", install, log, _INSTALL_SECONDS)
            (environment / "complete").touch()
    return python


def _own_path(home: Path) -> Path:
    """Return a folder in which this package is, and nothing else that our own environment has."""
    folder = home / "python"
    folder.mkdir(exist_ok=True)
    link = folder / "penstock"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(penstock.__file__).parent)
    return folder
