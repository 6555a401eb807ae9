"""What all sessions of the stand-in share."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.results import REDSHIFT_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CONNECT_SECONDS = 10
S3_FILE = "s3.json"
ROLE = "arn:aws:iam::000000000000:role/penstock"
"""The one role that may be given in COPY and UNLOAD; `default` means it."""


@dataclass(frozen=True, slots=True)
class S3Place:
    """An S3 server, and the keys that the role has there."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    region: str = "us-east-1"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The stand-in's home, and its PostgreSQL with the superuser's login. `types` numbers Redshift's own types.

    `late_views` knows of databases whether they may have late-binding views.
    """

    home: Path
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    types: Mapping[int, int] = field(default_factory=dict)
    late_views: dict[str, bool] = field(default_factory=dict)

    def login(self, database: str) -> str:
        """How psycopg connects as the superuser."""
        login: dict[str, str | int] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
        }
        return psycopg.conninfo.make_conninfo("", dbname=database, connect_timeout=_CONNECT_SECONDS, **login)

    async def execute(self, statement: str, *parameters: object, database: str = "postgres") -> None:
        """Run a statement as the superuser, at once and for good, whatever becomes of a client's transaction."""
        async with await psycopg.AsyncConnection.connect(self.login(database), autocommit=True) as connection:
            await connection.execute(statement.encode(), parameters or None)

    def s3(self) -> S3Place:
        """The S3 server; RedshiftError where none is known.

        That is what the stand-in was started with, else the one that `penstock dev up s3` runs beside it.
        """
        for file in (self.home / S3_FILE, self.home.parent / S3_FILE):
            try:
                facts = json.loads(file.read_text())
            except FileNotFoundError:
                continue
            return S3Place(**{name: facts[name] for name in S3Place.__dataclass_fields__})
        message = "the stand-in knows no S3 server"
        raise refuse(message, hint="type: penstock dev up s3")


def write_s3(home: Path, place: S3Place) -> None:
    """Tell the stand-in with this home where S3 is."""
    (home / S3_FILE).write_text(json.dumps(asdict(place)))


def read_types(login: str) -> dict[int, int]:
    """The numbers that a PostgreSQL gave to Redshift's own types, and those that Redshift has for them."""
    names = sql.SQL(", ").join(sql.Literal(name) for name in REDSHIFT_TYPES)
    question = sql.SQL("SELECT oid::integer, typname FROM pg_type WHERE typname IN ({})").format(names)
    with psycopg.connect(login) as connection:
        return {number: REDSHIFT_TYPES[name] for number, name in connection.execute(question)}
