"""`penstock dev`: real servers on loopback for development."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import say_note
from penstock.core.errors import UsageError
from penstock.dev.background import Background
from penstock.dev.services import BY_DEFAULT, Service, parse_service
from penstock.embedded.jars import JarSet, ensure_jars, jar_directory
from penstock.embedded.mysql import fetch_mysql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

app = typer.Typer(no_args_is_help=True, help="Start and stop real servers on loopback for development.")

_Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SERVICE]...", help="mariadb kafka schematizer spark zookeeper mysql postgres s3 redshift"),
]
_Home = Annotated[Path, typer.Option("--home", help="Where state and data live.", file_okay=False)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, by service.")]
_Ports = Annotated[
    list[str] | None, typer.Option("--port", metavar="SERVICE=PORT", help="Where to listen; else a free port.")
]

_HOME = Path(".penstock/dev")
_JARS = {Service.KAFKA: (JarSet.KAFKA_BROKER, "Kafka's"), Service.S3: (JarSet.S3PROXY, "S3Proxy's")}


@app.command("up")
def up(names: _Names = None, ports: _Ports = None, *, home: _Home = _HOME, as_json: _Json = False) -> None:
    """Start servers (by default mariadb, kafka, schematizer and spark) and leave them running.

    A server that was up before keeps its data and port. mysql is Oracle's, from
    Debian unstable, where a Debian mirror can be reached.
    """
    services = _services(names, BY_DEFAULT)
    wanted = parse_ports(ports or [])
    for service, (jar_set, whose) in _JARS.items():
        if service in services and not jar_directory(jar_set).exists():
            # Here rather than in the background, because it takes a minute.
            say_note(f"fetching {whose} jars, this once")
            ensure_jars(jar_set)
    if Service.MYSQL in services:
        fetch_mysql(say_note)
    background = Background(home)
    _show({service: background.up(service, wanted.get(service)) for service in services}, as_json=as_json)


@app.command("down")
def down(names: _Names = None, *, home: _Home = _HOME, as_json: _Json = False) -> None:
    """Stop servers (by default all that run). Their data stays."""
    background = Background(home)
    stopped = {service.value: background.down(service) for service in _services(names)}
    if as_json:
        typer.echo(json.dumps(stopped))
    else:
        for name, ran in stopped.items():
            typer.echo(f"{name}: {'stopped' if ran else 'did not run'}")


@app.command("status")
def status(names: _Names = None, *, home: _Home = _HOME, as_json: _Json = False) -> None:
    """Show which servers run, and how to connect to them."""
    background = Background(home)
    _show({service: background.status(service) for service in _services(names)}, as_json=as_json)


def parse_ports(options: Sequence[str]) -> dict[Service, int]:
    """The ports in options like `kafka=9092`; UsageError for one that does not read so."""
    ports = {}
    for option in options:
        name, _, number = option.partition("=")
        if not number.isdigit() or not 0 < int(number) < 1 << 16:
            message = f"--port {option} is not SERVICE=PORT"
            raise UsageError(message, "write it like --port kafka=9092")
        ports[parse_service(name)] = int(number)
    return ports


def _services(names: Sequence[str] | None, otherwise: Sequence[Service] = tuple(Service)) -> list[Service]:
    """The services of these names; for none, those of `otherwise`."""
    return [parse_service(name) for name in names] if names else list(otherwise)


def _show(facts: Mapping[Service, Mapping[str, str | int] | None], *, as_json: bool) -> None:
    """Print the facts of each service: one JSON object, or one line each."""
    if as_json:
        typer.echo(json.dumps({service.value: found for service, found in facts.items()}, indent=1))
        return
    for service, found in facts.items():
        listed = " ".join(f"{key}={value}" for key, value in (found or {}).items() if key != "service")
        typer.echo(f"{service.value}: {listed or 'not running'}")
