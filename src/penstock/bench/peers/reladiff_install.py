"""reladiff in a virtual environment of its own, whose packages are not ours."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.cache import cache_directory, locked
from penstock.embedded.processes import run_to_end

VERSION: Final = "0.6.0"
PROGRAM: Final = Path(__file__).parent / "reladiff_tables.py"
# Its SQL layer imports pkg_resources, which newer setuptools have no more.
_PACKAGES: Final = (f"reladiff[duckdb,mysql,postgresql]=={VERSION}", "duckdb==2.0.0", "setuptools<81")
_INSTALL_SECONDS: Final = 600.0


def ensure_reladiff() -> Path:
    """Its Python, made and filled by pip first if this machine does not have it yet.

    UnavailableError when the packages cannot be fetched.
    """
    home = cache_directory("peers") / f"reladiff-{VERSION}"
    with locked(home.with_name(f"{home.name}.lock")):
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(home)
            (home / "done").touch()
    return home / "bin" / "python"


def _install(home: Path) -> None:
    log = home.with_name(f"{home.name}.log")
    try:
        run_to_end("venv", [sys.executable, "-m", "venv", str(home)], log, _INSTALL_SECONDS)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_to_end("pip", [*pip, *_PACKAGES], log, _INSTALL_SECONDS)
    except PenstockError as error:
        message = f"reladiff cannot be installed: {error.message}"
        raise UnavailableError(message, f"check the network or its proxy, see {log}") from error
