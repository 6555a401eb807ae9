"""`penstock schematizer serve`, and what it refuses to serve."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import Annotated

import typer

from penstock.cli.database_options import DatabaseOptions  # noqa: TC001 - Typer reads annotations
from penstock.cli.option_groups import grouped
from penstock.core.errors import UsageError
from penstock.core.hosts import is_loopback

_OPEN_RATE = 0.0
_RATE = 1000.0
_BURST_SECONDS = 2


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where it answers."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8081
    port_file: Annotated[Path | None, typer.Option(help="Write the port here once requests are answered.")] = None
    kafka: Annotated[str, typer.Option(metavar="HOST:PORT", help="Ask this Kafka for the pages' live figures.")] = ""
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer.")] = 1
    behind_proxy: Annotated[
        str,
        typer.Option(
            metavar="ADDRESSES",
            help="TLS ends at a proxy with one of these addresses, which passes on the client's in X-Forwarded-For.",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """Who may ask, and how connections are encrypted."""

    users: Annotated[
        Path | None, typer.Option(help="Who may do what; see penstock schematizer user. Read again when it changes.")
    ] = None
    tls_certificate: Annotated[Path | None, typer.Option(help="Serve HTTPS with this certificate (PEM).")] = None
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key, if it is in a file of its own.")] = None
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Take connections only from clients with a certificate of this authority.")
    ] = None


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How much may be asked."""

    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Requests per second of a user, or an address without one; 0: no limit, as on loopback. Else 1000.",
            show_default=False,
        ),
    ] = None
    burst: Annotated[
        int | None, typer.Option(min=1, help="Requests at once before --rate counts; two seconds' worth if not given.")
    ] = None
    body_bytes: Annotated[int, typer.Option(min=1024, help="The most that a request's body may have.")] = 4 << 20
    body_seconds: Annotated[float, typer.Option(min=0.1, help="How long a body may take to arrive.")] = 30.0


@grouped
def serve(listen: ListenOptions, database: DatabaseOptions, security: SecurityOptions, limits: LimitOptions) -> None:
    """Serve the registry until it is stopped."""
    # Nothing of what a start makes is garbage: looking for some takes a fifth of it.
    gc.disable()
    # The web server takes half a second to import, which other commands need not wait for.
    from penstock.schematizer.http.limits import Limits  # noqa: PLC0415
    from penstock.schematizer.http.protection import Protection  # noqa: PLC0415
    from penstock.schematizer.security.rates import Rates  # noqa: PLC0415
    from penstock.schematizer.server import Service, Tls, write_port_file  # noqa: PLC0415
    from penstock.schematizer.server import serve as serve_application  # noqa: PLC0415

    _refuse_open_doors(listen, security)

    def announce(address: str, chosen: int) -> None:
        gc.freeze()
        gc.enable()
        typer.echo(f"schematizer listens on {address}")
        if listen.port_file is not None:
            write_port_file(listen.port_file, chosen)

    tls = None
    if security.tls_certificate:
        tls = Tls(security.tls_certificate, security.tls_key, security.tls_client_ca)
    rate = limits.rate if limits.rate is not None else _OPEN_RATE if is_loopback(listen.host) else _RATE
    protection = Protection(
        users_file=security.users,
        limits=Limits(body_bytes=limits.body_bytes, body_seconds=limits.body_seconds),
        rates=Rates(rate, limits.burst or max(1, round(rate * _BURST_SECONDS))),
        # By TLS no other site has a certificate for its name here.
        is_on_loopback=is_loopback(listen.host) and not listen.behind_proxy and tls is None,
    )
    service = Service(
        database.read_url(),
        listen.host,
        listen.port,
        listen.workers,
        protection,
        tls,
        listen.behind_proxy,
        listen.kafka,
    )
    try:
        serve_application(service, announce)
    finally:
        gc.enable()


def _refuse_open_doors(listen: ListenOptions, security: SecurityOptions) -> None:
    """Raise UsageError for what would let strangers in, or show them passwords."""
    if (security.tls_key or security.tls_client_ca) and not security.tls_certificate:
        message = "--tls-key and --tls-client-ca are of no use without a certificate"
        raise UsageError(message, "add --tls-certificate FILE")
    exposed = listen.behind_proxy or not is_loopback(listen.host)
    if exposed and security.users is None:
        where = "behind a proxy" if listen.behind_proxy else f"on {listen.host}"
        message = f"{where}, everybody who reaches the registry could change it: it has no users"
        hint = "type: penstock schematizer user add NAME --users users.yaml --role admin, then add --users users.yaml"
        raise UsageError(message, hint)
    if exposed and not security.tls_certificate and not listen.behind_proxy:
        message = f"on {listen.host}, passwords and tokens would cross the network as they are"
        hint = "add --tls-certificate FILE --tls-key FILE, or --behind-proxy ADDRESS if TLS ends at a proxy"
        raise UsageError(message, hint)
