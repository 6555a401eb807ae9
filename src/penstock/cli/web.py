"""`penstock web`: the live page, metrics and health of one pipeline, whether it runs or not."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import ConfigFile  # noqa: TC001 - Typer reads the annotations when it runs

app = typer.Typer()


@app.command()
def web(
    file: ConfigFile,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On which port; 0 takes a free one.", show_default="a free one")
    ] = 0,
) -> None:
    """Serve a pipeline's live page, /metrics, /healthz and /readyz until Ctrl-C, where the file's `web` says.

    Without `web: {host: ...}` that is on loopback. `penstock run` does so by itself.
    This is for a pipeline that does not run, and for other machines that reach its
    state database. It starts nothing, but the page's buttons act on tables (pause,
    skip, drop, snapshot) and replay dead letters unless the file says `web: {actions: false}`.
    """
    # The web server takes half a second to import, which --help need not wait for.
    from penstock.config.load import load  # noqa: PLC0415
    from penstock.web.server import serve_page  # noqa: PLC0415

    serve_page(load(file), file, port, lambda url: typer.echo(f"live page: {url}"))
