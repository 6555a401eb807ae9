"""The services that `penstock dev` knows, by name."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, assert_never

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.server import Server

_LATER = ("postgres", "s3", "redshift", "snowflake")


class Service(enum.Enum):
    """A server that can be started on loopback."""

    MARIADB = "mariadb"
    KAFKA = "kafka"
    SCHEMATIZER = "schematizer"
    SPARK = "spark"
    ZOOKEEPER = "zookeeper"
    MYSQL = "mysql"


BY_DEFAULT = (Service.MARIADB, Service.KAFKA, Service.SCHEMATIZER, Service.SPARK)
"""Those that a pipeline with servers of its own is made of; the others are started by name only."""


def parse_service(name: str) -> Service:
    """The service of that name; UsageError lists them all where there is none."""
    try:
        return Service(name)
    except ValueError as error:
        known = " ".join(service.value for service in Service)
        why = "is not in this release" if name in _LATER else "is not a service that we know"
        message = f"{name} {why}"
        raise UsageError(message, f"choose from: {known}") from error


def start_service(service: Service, home: Path, port: int | None) -> Server:
    """Start one service with its data under `home`, on `port` if given.

    Each is imported only when it is asked for: none needs the others' libraries.
    """
    match service:
        case Service.MARIADB:
            from penstock.dev.mariadb import start_mariadb  # noqa: PLC0415 - see above

            return start_mariadb(home, port=port)
        case Service.KAFKA:
            from penstock.dev.kafka import start_kafka  # noqa: PLC0415 - see above

            return start_kafka(home, port=port)
        case Service.SCHEMATIZER:
            from penstock.dev.schematizer import start_schematizer  # noqa: PLC0415 - see above

            return start_schematizer(home, port=port)
        case Service.SPARK:
            from penstock.dev.spark import start_spark  # noqa: PLC0415 - see above

            return start_spark(home, port=port)
        case Service.ZOOKEEPER:
            from penstock.dev.zookeeper import start_zookeeper  # noqa: PLC0415 - see above

            return start_zookeeper(home, port=port)
        case Service.MYSQL:
            from penstock.dev.mysql import start_mysql  # noqa: PLC0415 - see above

            return start_mysql(home, port=port)
        case _:
            assert_never(service)
