"""dlt in a virtual environment of its own, whose packages are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.bench.peers.environments import ensure_peer
from penstock.bench.programs.measured import measure_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.programs.measured import Work

VERSION: Final = "1.31.0"
_FOLDER: Final = Path(__file__).parent
_KAFKA_VERSION: Final = "2.16.0"
_PACKAGES: Final = (f"dlt[duckdb]=={VERSION}", "duckdb==2.0.0", "pyarrow==26.0.1", f"confluent-kafka=={_KAFKA_VERSION}")
"""DuckDB, Arrow and Kafka's client are those that we use ourselves."""
_WAIT_SECONDS: Final = 3600.0


def ensure_dlt() -> Path:
    """Its Python; see `ensure_peer`."""
    return ensure_peer("dlt", f"{VERSION}-kafka-{_KAFKA_VERSION}", _PACKAGES)


def measure_merge(files: Sequence[Path], database: Path, folder: Path, loads: int) -> Work:
    """Merge our batch files into `database`; the first is its warm-up, the others are measured, in so many loads."""
    listed = folder / "files.txt"
    listed.write_text("".join(f"{file}\n" for file in files))
    return _measure("dlt_merge.py", [str(listed)], database, folder, loads)


def measure_topic_merge(
    topic: tuple[str, str], counts: tuple[int, int], database: Path, folder: Path, loads: int
) -> Work:
    """Merge a topic (brokers and its name) of rows into `database`; `counts` are of its warm-up and of what follows."""
    return _measure("dlt_kafka.py", [*topic, *map(str, counts)], database, folder, loads)


def _measure(program: str, what: Sequence[str], database: Path, folder: Path, loads: int) -> Work:
    command = [str(ensure_dlt()), str(_FOLDER / program), *what, str(database), str(folder / "dlt"), str(loads)]
    return measure_command("dlt", command, folder / "dlt.log", _WAIT_SECONDS)
