"""`penstock schematizer`: serve the registry, or look into one that runs."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table

from penstock.core.errors import PenstockError, UnavailableError
from penstock.schematizer.answers import TopicAnswer, TopicList, TopicSchemaAnswer, TopicSchemaList

_TIMEOUT_SECONDS = 10.0

app = typer.Typer(no_args_is_help=True, help="Serve or show the registry of schemas.")


@app.command()
def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8081,
    url: Annotated[
        str, typer.Option(help="Database, in SQLAlchemy's notation; its tables are made and upgraded.")
    ] = "sqlite:///.penstock/schematizer/schematizer.db",
    port_file: Annotated[Path | None, typer.Option(help="Write the port here once requests are answered.")] = None,
) -> None:
    """Serve the registry until it is stopped."""
    # The web server takes half a second to import, which `show` need not wait for.
    from penstock.schematizer.server import serve as serve_application  # noqa: PLC0415
    from penstock.schematizer.server import write_port_file  # noqa: PLC0415

    def announce(address: str, chosen: int) -> None:
        typer.echo(f"schematizer listens on {address}")
        if port_file is not None:
            write_port_file(port_file, chosen)

    serve_application(url, host, port, announce)


@app.command()
def show(
    *,
    topic: Annotated[str, typer.Argument(help="Show this topic's schemas; without it, all topics.")] = "",
    url: Annotated[str, typer.Option(help="Where the registry answers.")] = "http://127.0.0.1:8081",
) -> None:
    """Show topics with their tables, owners and keys, or one topic with its schemas."""
    console = Console()
    with httpx.Client(base_url=url, timeout=_TIMEOUT_SECONDS) as client:
        if topic:
            console.print(_topic_table(TopicAnswer.model_validate_json(_get(client, f"/v1/topics/{topic}"))))
            found = TopicSchemaList.model_validate_json(_get(client, f"/v1/topics/{topic}/schemas"))
            for schema in found.items:
                console.print(_schema_heading(schema))
                console.print_json(schema.schema_text)
        else:
            console.print(_topics_table(TopicList.model_validate_json(_get(client, "/v1/topics")).items))


def _topics_table(topics: list[TopicAnswer]) -> Table:
    table = Table(title="Topics", title_justify="left")
    for heading in ("topic", "table", "owner", "key", "follows"):
        table.add_column(heading, overflow="fold")
    for topic in topics:
        table.add_row(
            topic.name,
            topic.table,
            topic.owner_email or "nobody yet",
            ", ".join(topic.key_fields) or "-",
            topic.follows,
        )
    return table


def _topic_table(topic: TopicAnswer) -> Table:
    table = Table(title=topic.name, title_justify="left", show_header=False)
    rows = {
        "table": f"{topic.table} of {topic.namespace}",
        "owner": topic.owner_email or "nobody yet",
        "key": ", ".join(topic.key_fields) or "none: the table has no primary key",
        "personal data": "yes" if topic.contains_pii else "no",
        "follows": topic.follows or "nothing: it is the table's first topic",
        "opened because": "\n".join(topic.opened_because) or "the table is new",
    }
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _schema_heading(schema: TopicSchemaAnswer) -> str:
    return f"\n{schema.kind} version {schema.version}, schema {schema.id} ({schema.status})"


def _get(client: httpx.Client, path: str) -> bytes:
    try:
        response = client.get(path)
    except httpx.TransportError as error:
        message = f"no registry answers at {client.base_url}: {error}"
        raise UnavailableError(message, 'start one with "penstock schematizer serve", or give its --url') from error
    if response.is_error:
        message = f"the registry at {client.base_url} answers {response.status_code} to {path}: {response.text}"
        raise PenstockError(message, "check the topic's name, and that --url is a Schematizer")
    return response.content
