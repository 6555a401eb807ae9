"""What tests of Redshift and of its stand-in share."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import obstore
import psycopg
from obstore.store import S3Store
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, Place, RedshiftTarget, write_batch

from penstock.adapters.redshift.warehouse import RedshiftLoads, RedshiftWarehouse
from penstock.dev.redshift.cluster import ROLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server
    from penstock.links.warehouse.sink import SqlSink

CREDENTIALS = f"IAM_ROLE '{ROLE}'"


def log_in(server: RedshiftServer, *, autocommit: bool = True, **more: Any) -> psycopg.Connection:  # noqa: ANN401 - libpq's
    """A connection by psycopg, as the superuser unless told otherwise."""
    login = {"user": server.user, "password": server.password, "dbname": server.database, "sslmode": "disable", **more}
    return psycopg.connect(
        host=server.host, port=server.port, autocommit=autocommit, connect_timeout=10, prepare_threshold=None, **login
    )


def run(connection: psycopg.Connection, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements; what the last returns."""
    for statement in statements:
        cursor = connection.execute(statement.encode())
    return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of an S3 bucket."""

    server: S3Server
    folder: str

    @property
    def url(self) -> str:
        return f"s3://{self.server.bucket}/{self.folder}"

    def store(self) -> S3Store:
        return S3Store(
            self.server.bucket,
            prefix=self.folder,
            endpoint=self.server.endpoint,
            region=self.server.region,
            access_key_id=self.server.access_key_id,
            secret_access_key=self.server.secret_access_key,
            client_options={"allow_http": True},
        )

    def put(self, name: str, content: bytes | str) -> str:
        """Write a file; its URL."""
        obstore.put(self.store(), name, content.encode() if isinstance(content, str) else content)
        return f"{self.url}/{name}"

    def put_packed(self, name: str, content: str) -> str:
        return self.put(name, gzip.compress(content.encode()))

    def get(self, name: str) -> bytes:
        return bytes(obstore.get(self.store(), name).bytes())

    def manifest(self, name: str, urls: Iterable[str], more: Mapping[str, object] | None = None) -> str:
        """Write a manifest of mandatory files; its URL."""
        entries = [{"url": url, "mandatory": True, **(more or {})} for url in urls]
        return self.put(name, json.dumps({"entries": entries}))


def target(place: Place) -> RedshiftTarget:
    """A place's target, which is a Redshift."""
    assert isinstance(place.target, RedshiftTarget)
    return place.target


def loads_of(target: RedshiftTarget) -> RedshiftLoads:
    """How a target's warehouse loads."""
    with closing(target.connect("shop/shopdb")) as warehouse:
        assert isinstance(warehouse, RedshiftWarehouse)
        return warehouse._loads


def with_one_row(place: Place) -> SqlSink:
    """A sink that has loaded ("a", 1)."""
    sink = place.open()
    sink.load(TABLE, [write_batch(place, FIRST, 1, 0, [("a", 1, "c")])], SCHEMAS)
    return sink
