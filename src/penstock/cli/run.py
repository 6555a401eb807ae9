"""`penstock run`: a whole pipeline in this process, until it is stopped or has caught up."""

from __future__ import annotations

import importlib
import os
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.cli.leading import Leadership
    from penstock.config.specs import PipelineSpec
    from penstock.embedded.beside import Beside
    from penstock.embedded.page import PageServer
    from penstock.embedded.servers import EmbeddedServers
    from penstock.jobs.runner import PipelineRun
    from penstock.wiring.server_watch import ServerWatch

app = typer.Typer()

_NEEDED_BY_LINKS = ("penstock.jobs.pipeline", "penstock.links.warehouse.sink", "penstock.spark.runner")


@app.command()
def run(
    file: ConfigFile,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Carry everything committed up to now, then exit with 0.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", help="Run one link alone, by its name in `penstock status`.", metavar="LINK")
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="While another instance runs, wait, and take over when it ends.")
    ] = False,
) -> None:
    """Run a pipeline: capture changes into Kafka, write them to files, load them into targets.

    Without --once it runs until Ctrl-C or SIGTERM, or until all sources have failed
    for good. Whatever ends it, the next run goes on from the targets' positions.
    """
    from penstock.cli.beginning_again import begin_again  # noqa: PLC0415 - --help must not wait for Spark
    from penstock.cli.ending import ending_in_time  # noqa: PLC0415
    from penstock.core.errors import SparkLostError  # noqa: PLC0415

    environment = dict(os.environ)
    try:
        with ending_in_time():
            _run(file, environment, once=once, only=only, standby=standby)
    except SparkLostError as error:
        begin_again(error, environment)


def _run(file: Path, environment: dict[str, str], *, once: bool, only: str | None, standby: bool) -> None:
    """Run the pipeline of `file`.

    Raises SparkLostError where Spark's JVM is lost, when all is closed but what `environment` hands on.
    """
    from penstock.cli.beginning_again import losses_before  # noqa: PLC0415 - --help must not wait for Spark
    from penstock.cli.carried import Carried  # noqa: PLC0415
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.cli.leading import leading  # noqa: PLC0415
    from penstock.jobs.runner import PipelineRun  # noqa: PLC0415
    from penstock.ports.history import SPARK  # noqa: PLC0415
    from penstock.spark.loss import telling_loss  # noqa: PLC0415
    from penstock.spark.session import kill_session  # noqa: PLC0415
    from penstock.wiring.identity import prepare_state  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415
    from penstock.wiring.run_start import tell_start  # noqa: PLC0415
    from penstock.wiring.waiting import wait_for_servers, wait_for_sources  # noqa: PLC0415

    spec, page = _prepare(file, once=once)
    with ExitStack() as stack:
        spark = stack.enter_context(closing(_Spark()))
        prepare = telling_loss()(partial(spark.prepare, spec)) if standby else None
        leadership = stack.enter_context(leading(spec.pipeline, open_lock(spec), say_note, prepare))
        spark.begin(spec)
        tell_start(spec)
        watch = _watch_servers(spec, stack)
        if page is not None:
            stack.enter_context(page)
        stack.enter_context(_outliving_spark(watch, page, environment))
        stack.enter_context(telling_loss())
        # What is wrong with them is told before anything is made for them.
        wait_for_sources(spec, say_note)
        prepare_state(spec)
        servers = _start_servers(spec, watch, stack)
        wait_for_servers(servers.spec, say_note)
        carried = Carried(servers.spec) if once else None
        _import_links()
        session = spark.open(servers.spec)
        if losses_before(os.environ):
            watch.tell(SPARK, "running")
        halted = _halted_at_loss(leadership, partial(kill_session, session))
        _start_page(page)
        say_note("running; Ctrl-C ends it" if not once else "carrying everything committed up to now")
        try:
            _run_links(PipelineRun(servers.spec, once, only), session, _Services(leadership, servers, page), halted)
        finally:
            # Before the lock is let go: nothing of ours publishes after that.
            spark.close()
    if carried:
        carried.say()


def _prepare(file: Path, *, once: bool) -> tuple[PipelineSpec, PageServer | None]:
    """Read the file, and find out what speaks against a run before anything has begun; plan its page."""
    from penstock.config.load import load  # noqa: PLC0415 - --help must not wait for Spark
    from penstock.embedded.java import java  # noqa: PLC0415
    from penstock.embedded.page import plan_page  # noqa: PLC0415
    from penstock.spark.pandas_left_out import leave_out_pandas  # noqa: PLC0415
    from penstock.wiring.spolts import require_spolts_load  # noqa: PLC0415

    spec = load(file)
    require_spolts_load(spec)
    java()
    _prepare_home(file, spec)
    page = None if once else plan_page(file, spec)
    leave_out_pandas(spec)
    _say_crash_point()
    return spec, page


def _watch_servers(spec: PipelineSpec, stack: ExitStack) -> ServerWatch:
    """Have it written down from now on how servers are, and Spark where this process begins again without it."""
    from penstock.cli.beginning_again import losses_before  # noqa: PLC0415
    from penstock.ports.history import SPARK  # noqa: PLC0415
    from penstock.wiring.server_watch import ServerWatch  # noqa: PLC0415

    watch = stack.enter_context(ServerWatch(spec))
    if losses := losses_before(os.environ):
        watch.tell(SPARK, "starting", losses)
    return watch


@contextmanager
def _outliving_spark(watch: ServerWatch, page: PageServer | None, environment: dict[str, str]) -> Iterator[None]:
    """Keep the page, and what it tells, where Spark is lost in the block and this process begins again."""
    from penstock.cli.beginning_again import may_begin_again  # noqa: PLC0415
    from penstock.core.errors import SparkLostError  # noqa: PLC0415
    from penstock.ports.history import SPARK  # noqa: PLC0415

    try:
        yield
    except SparkLostError:
        if may_begin_again(environment):
            watch.leave(SPARK, "down")
            environment |= {} if page is None else page.hand_on()
        raise


def _start_servers(spec: PipelineSpec, watch: ServerWatch, stack: ExitStack) -> EmbeddedServers:
    """Start what the file names none of, and say what starts: Spark does, too."""
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.embedded.servers import EmbeddedServers  # noqa: PLC0415

    servers = EmbeddedServers(spec, say_note, tell=watch.tell)
    say_note(f"starting {', '.join(['Spark', *servers.names])}")
    return stack.enter_context(servers)


def _start_page(page: PageServer | None) -> None:
    """Start the live page and say where it is."""
    from penstock.cli.console import say_note  # noqa: PLC0415

    if page is not None:
        page.start()
        say_note(f"live page: {page.url} (metrics: {page.url}metrics)")


def _prepare_home(file: Path, spec: PipelineSpec) -> None:
    """Open the logs below home; no other user reads what this process and its children write, which rows are in."""
    import structlog  # noqa: PLC0415

    from penstock.cli.logs import open_logs  # noqa: PLC0415
    from penstock.config.places import log_directory  # noqa: PLC0415
    from penstock.embedded.secrets import make_private  # noqa: PLC0415

    os.umask(0o077)
    make_private(spec.home)
    open_logs(log_directory(spec), console=True, pipeline_file=file)
    if os.geteuid() == 0:
        hint = "give it a user of its own, who owns `home`"
        structlog.get_logger().warning("running as root, which a pipeline does not need", hint=hint)


def _halted_at_loss(leadership: Leadership, kill: Callable[[], None]) -> Event:
    """Let nothing of ours be written once somebody else may lead; return what is set in that moment."""
    halted = Event()

    def halt() -> None:
        halted.set()
        kill()

    leadership.at_loss(halt)
    return halted


def _import_links() -> None:
    """Import what links need while Spark's JVM starts: most of a second."""
    for name in _NEEDED_BY_LINKS:
        importlib.import_module(name)


def _run_links(links: PipelineRun, session: SparkSession, services: _Services, halted: Event) -> None:
    from penstock.jobs.pipeline import run_pipeline  # noqa: PLC0415
    from penstock.spark.runner import SparkRunner  # noqa: PLC0415

    run_pipeline(links, SparkRunner(session, services, halted))


def _say_crash_point() -> None:
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.wiring.crash_points import require_known_point  # noqa: PLC0415

    if point := require_known_point():
        say_note(f"PENSTOCK_CRASH_AT is set: every process that comes by {point} kills itself")


@dataclass(frozen=True, slots=True)
class _Services:
    """What a pipeline runs by: the right to publish, and its embedded servers."""

    leadership: Leadership
    servers: EmbeddedServers
    page: PageServer | None

    def ensure(self) -> None:
        """Raise LockLostError if the lock is lost; start again what has died."""
        self.leadership.require()
        self.servers.ensure()
        if self.page is not None:
            self.page.ensure()


class _Spark:
    """The run's Spark session, which is started beside the servers, or while an instance stands by."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._session: SparkSession | None = None
        self._starting: Beside[SparkSession] | None = None

    def begin(self, spec: PipelineSpec) -> None:
        """Start it beside whatever comes next."""
        from penstock.cli.spark_session import plan_session  # noqa: PLC0415
        from penstock.embedded.beside import Beside  # noqa: PLC0415
        from penstock.spark.session import close_session, open_session  # noqa: PLC0415

        if self._session is None and self._starting is None:
            name = f"penstock {spec.pipeline}"
            self._starting = Beside(lambda: open_session(plan_session(spec, name)), close_session)

    def prepare(self, spec: PipelineSpec) -> None:
        """Have a session ready that has run a query."""
        from penstock.spark.warm_up import warm_up  # noqa: PLC0415

        warm_up(self.open(spec))

    def open(self, spec: PipelineSpec) -> SparkSession:
        """The session, which knows the secrets of `spec` from now on."""
        from penstock.config.secrets import secret  # noqa: PLC0415
        from penstock.embedded.beside import Beside  # noqa: PLC0415
        from penstock.spark.session import give_secrets  # noqa: PLC0415
        from penstock.spark.warm_up import start_workers  # noqa: PLC0415

        self.begin(spec)
        if self._starting is not None:
            self._session, self._starting = self._starting.take(), None
        assert self._session is not None  # noqa: S101 - one of the two is there since `begin`
        give_secrets(self._session, {name: secret(name) for name in spec.secret_names()})
        # What goes wrong here is left for the first real task to tell.
        Beside(partial(start_workers, self._session), lambda _: None)
        return self._session

    def close(self) -> None:
        """Stop Spark if it runs. Safe to call twice."""
        from penstock.spark.session import close_session  # noqa: PLC0415

        if self._starting is not None:
            self._starting.give_up()
            self._starting = None
        if self._session is not None:
            close_session(self._session)
            self._session = None
