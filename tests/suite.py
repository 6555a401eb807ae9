"""How the suite runs as a whole: which worker runs what, which servers all share, what it cost, and its budget."""

from __future__ import annotations

import gc
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

_SLOWEST: Final = 15
_SPARK: Final = "spark"


class Suite:
    """What one run of pytest keeps in the process that started it."""

    def __init__(self, minutes_max: float | None) -> None:
        """Begin to count; a run that takes longer than `minutes_max` fails."""
        self._minutes_max = minutes_max
        self._began = time.monotonic()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.shared = ExitStack()
        self.door = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what each file takes, whichever worker ran it."""
        self._seconds[_file(report.nodeid)] += report.duration

    def is_over(self) -> bool:
        """Whether the run took longer than it may."""
        return self._minutes_max is not None and self._minutes() > self._minutes_max

    def lines(self) -> list[str]:
        """The slowest files, and what the whole took."""
        slowest = sorted(self._seconds.items(), key=lambda each: -each[1])[:_SLOWEST]
        took = f"{self._minutes():.1f} minutes"
        if self._minutes_max is not None:
            took += f" of {self._minutes_max:g}{': OVER THE BUDGET' if self.is_over() else ''}"
        return [*(f"{seconds:7.1f} s  {file}" for file, seconds in slowest), took]

    def _minutes(self) -> float:
        return (time.monotonic() - self._began) / 60


_suite = pytest.StashKey[Suite]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller state a budget, as `make test` does, and another PostgreSQL, as `make nightly` does."""
    parser.addoption("--budget-minutes", type=float, default=None, help="fail where the whole run takes longer")
    parser.addoption("--postgres-18", action="store_true", help="run PostgreSQL 18 in place of the installed one")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    from tests.servers.newer_postgres import newer_postgres  # noqa: PLC0415 - few runs want it

    config.stash[_suite] = suite = Suite(config.getoption("budget_minutes"))
    config.pluginmanager.register(suite, "penstock-suite")
    if config.getoption("postgres_18") and not hasattr(config, "workerinput"):
        # Workers begin with the same PATH.
        suite.shared.enter_context(newer_postgres())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - pytest-xdist has no public type of it
    """Tell a worker where to ask for the servers that all share."""
    from tests.servers.shared_servers import DOOR, RunServers, ServerDoor  # noqa: PLC0415 - only runs with workers

    suite = node.config.stash[_suite]
    if not suite.door:
        home = Path(suite.shared.enter_context(tempfile.TemporaryDirectory(prefix="penstock-run-")))
        servers = suite.shared.enter_context(closing(RunServers(home)))
        suite.door = suite.shared.enter_context(closing(ServerDoor(servers, home))).address
    node.workerinput[DOOR] = suite.door


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in a million objects that stay, neither while they are made nor ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that need a Spark session first; a worker tells which these are."""
    from tests.servers.shared_servers import DOOR  # noqa: PLC0415 - only runs with workers

    of_spark = {_file(item.nodeid) for item in items if _SPARK in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: _file(item.nodeid) not in of_spark)
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker is not None:
        Path(worker[DOOR]).with_name(_SPARK).write_text("\n".join(sorted(of_spark)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401 - as above
    """Give each file to one worker, and all that need a Spark session to the same: a session costs seconds."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only runs with workers

    scheduling = LoadFileScheduling(config, log)
    told = Path(config.stash[_suite].door).with_name(_SPARK)
    scheduling._split_scope = lambda nodeid: _SPARK if _file(nodeid) in told.read_text().splitlines() else _file(nodeid)
    return scheduling


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Say what the run took."""
    terminalreporter.section("slowest files")
    for line in config.stash[_suite].lines():
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop what all shared, and fail where the run was over its budget."""
    suite = session.config.stash[_suite]
    suite.shared.close()
    # Or libraries of C++ would tell of what is frozen as of leaks.
    gc.unfreeze()
    if suite.is_over() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
