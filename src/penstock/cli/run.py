"""`penstock run`: a whole pipeline in this process, until it is stopped or has caught up."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.cli.leading import Leadership
    from penstock.config.specs import PipelineSpec
    from penstock.dev.embedded import EmbeddedServers

app = typer.Typer()


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The pipeline's YAML file.")],
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Carry everything committed up to now, then exit with 0.")
    ] = False,
    only: Annotated[str | None, typer.Option("--only", help="Run one link alone.", metavar="LINK")] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="While another instance runs, wait, and take over when it ends.")
    ] = False,
) -> None:
    """Run a pipeline: capture, files, warehouse.

    Without --once it runs until Ctrl-C or SIGTERM. Whatever ends it, the next run
    goes on where the targets say this one stopped.
    """
    from penstock.cli.console import say_note  # noqa: PLC0415 - --help must not wait for Spark
    from penstock.cli.leading import leading  # noqa: PLC0415
    from penstock.cli.logs import open_logs  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.config.places import log_directory  # noqa: PLC0415
    from penstock.dev.embedded import EmbeddedServers  # noqa: PLC0415
    from penstock.dev.java import java  # noqa: PLC0415
    from penstock.spark.pipeline import PipelineRun, run_pipeline  # noqa: PLC0415
    from penstock.spark.session import close_session, kill_session  # noqa: PLC0415
    from penstock.spark.warm_up import warm_up  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415
    from penstock.wiring.waiting import wait_for_servers  # noqa: PLC0415

    spec = load(file)
    java()
    open_logs(log_directory(spec), console=True)
    with ExitStack() as stack:
        session = None
        if standby and not spec.is_embedded("tracker"):
            # Whoever stands by has Spark ready, unless its workers need a password that is only known later.
            session = _spark(spec, stack)
            warm_up(session)
        leadership = stack.enter_context(leading(spec.pipeline, open_lock(spec), say_note, standby=standby))
        servers = stack.enter_context(EmbeddedServers(spec, say_note))
        wait_for_servers(servers.spec, say_note)
        if session is None:
            session = _spark(servers.spec, stack)
        leadership.at_loss(partial(kill_session, session))
        say_note("running; Ctrl-C ends it" if not once else "carrying everything committed up to now")
        try:
            run_pipeline(PipelineRun(servers.spec, once, only), session, _Services(leadership, servers))
        finally:
            # Before the lock is let go: nothing of ours publishes after that.
            close_session(session)


@dataclass(frozen=True, slots=True)
class _Services:
    """What a pipeline runs by: the right to publish, and its embedded servers."""

    leadership: Leadership
    servers: EmbeddedServers

    def ensure(self) -> None:
        """Raise LockLostError if the lock is lost; start again what has died."""
        self.leadership.require()
        self.servers.ensure()


def _spark(spec: PipelineSpec, stack: ExitStack) -> SparkSession:
    """Start Spark, to be ended with `stack`."""
    from penstock.config.secrets import secret  # noqa: PLC0415
    from penstock.dev.jars import JarSet, ensure_jars  # noqa: PLC0415
    from penstock.spark.session import SessionSpec, close_session, open_session  # noqa: PLC0415

    session = open_session(
        SessionSpec(
            f"penstock {spec.pipeline}",
            spec.spark.master,
            spec.spark.conf,
            ensure_jars(JarSet.SPARK_KAFKA),
            {name: secret(name) for name in spec.secret_names()},
        )
    )
    stack.callback(close_session, session)
    return session
