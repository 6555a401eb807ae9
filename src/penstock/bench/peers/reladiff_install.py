"""reladiff in a virtual environment of its own, whose packages are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.bench.peers.environments import ensure_peer

VERSION: Final = "0.6.0"
PROGRAM: Final = Path(__file__).parent / "reladiff_tables.py"
# Its SQL layer imports pkg_resources, which newer setuptools have no more.
_PACKAGES: Final = (f"reladiff[duckdb,mysql,postgresql]=={VERSION}", "duckdb==2.0.0", "setuptools<81")


def ensure_reladiff() -> Path:
    """Its Python; see `ensure_peer`."""
    return ensure_peer("reladiff", VERSION, _PACKAGES)
