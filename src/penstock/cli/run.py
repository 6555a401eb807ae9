"""`penstock run`: a whole pipeline in this process, until it is stopped or has caught up."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import PipelineSpec

app = typer.Typer()

_LOCK_WAIT_SECONDS = 5.0


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The pipeline's YAML file.")],
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Carry everything committed up to now, then exit with 0.")
    ] = False,
    only: Annotated[str | None, typer.Option("--only", help="Run one link alone.", metavar="LINK")] = None,
) -> None:
    """Run a pipeline: capture, files, warehouse.

    Without --once it runs until Ctrl-C or SIGTERM. Whatever ends it, the next run
    goes on where the targets say this one stopped.
    """
    from penstock.cli.console import say_note  # noqa: PLC0415 - --help must not wait for Spark
    from penstock.cli.logs import open_logs  # noqa: PLC0415
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.config.places import log_directory  # noqa: PLC0415
    from penstock.config.secrets import secret  # noqa: PLC0415
    from penstock.dev.embedded import EmbeddedServers  # noqa: PLC0415
    from penstock.dev.jars import JarSet, ensure_jars  # noqa: PLC0415
    from penstock.dev.java import java  # noqa: PLC0415
    from penstock.spark.pipeline import PipelineRun, run_pipeline  # noqa: PLC0415
    from penstock.spark.session import SessionSpec, close_session, open_session  # noqa: PLC0415
    from penstock.wiring.waiting import wait_for_servers  # noqa: PLC0415

    spec = load(file)
    java()
    open_logs(log_directory(spec), console=True)
    with _leading(spec), EmbeddedServers(spec, say_note) as servers:
        wait_for_servers(servers.spec, say_note)
        session = open_session(
            SessionSpec(
                f"penstock {spec.pipeline}",
                spec.spark.master,
                spec.spark.conf,
                ensure_jars(JarSet.SPARK_KAFKA),
                {name: secret(name) for name in servers.spec.secret_names()},
            )
        )
        try:
            say_note("running; Ctrl-C ends it" if not once else "carrying everything committed up to now")
            run_pipeline(PipelineRun(servers.spec, once, only), session, servers)
        finally:
            close_session(session)


@contextmanager
def _leading(spec: PipelineSpec) -> Iterator[None]:
    """Hold the leader's lock."""
    from penstock.core.errors import PenstockError  # noqa: PLC0415
    from penstock.wiring.open import open_lock  # noqa: PLC0415

    lock = open_lock(spec)
    if not lock.acquire(_LOCK_WAIT_SECONDS):
        message = f"another instance of pipeline {spec.pipeline} runs: {lock.holder()}"
        raise PenstockError(
            message,
            "let it run, or stop it first; two instances never publish at once",
        )
    try:
        yield
    finally:
        lock.release()
