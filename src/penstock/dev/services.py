"""The services that `penstock dev` knows, by name."""

from __future__ import annotations

import enum
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.server import Server


class Service(enum.Enum):
    """A server that can be started on loopback."""

    MARIADB = "mariadb"
    KAFKA = "kafka"
    SCHEMATIZER = "schematizer"
    SPARK = "spark"
    ZOOKEEPER = "zookeeper"
    MYSQL = "mysql"
    POSTGRES = "postgres"
    S3 = "s3"
    REDSHIFT = "redshift"
    SNOWFLAKE = "snowflake"


BY_DEFAULT = (Service.MARIADB, Service.KAFKA, Service.SCHEMATIZER, Service.SPARK)
"""Those that a pipeline with servers of its own is made of; the others are started by name only."""


_EMBEDDED = frozenset({Service.MARIADB, Service.KAFKA, Service.SCHEMATIZER, Service.MYSQL})


class _Start(Protocol):
    def __call__(self, home: Path, *, port: int | None = None) -> Server: ...


def parse_service(name: str) -> Service:
    """The service of that name; UsageError lists them all where there is none."""
    try:
        return Service(name)
    except ValueError as error:
        known = " ".join(service.value for service in Service)
        message = f"{name} is no known service"
        raise UsageError(message, f"choose from: {known}") from error


def start_service(service: Service, home: Path, port: int | None) -> Server:
    """Start one service with its data under `home`, on `port` if given.

    Each is imported only when it is asked for: none needs the others' libraries.
    The module that starts a service has its name, and so has the function in there.
    """
    room = "embedded" if service in _EMBEDDED else "dev"
    start: _Start = getattr(import_module(f"penstock.{room}.{service.value}"), f"start_{service.value}")
    return start(home, port=port)
