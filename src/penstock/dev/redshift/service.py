"""Starting the stand-in: its PostgreSQL, set up once, its certificate, and its process."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.dev.postgres import PASSWORD as OWNER_PASSWORD
from penstock.dev.postgres import USER as OWNER
from penstock.dev.postgres import PostgresServer, start_postgres
from penstock.dev.redshift.cluster import ROLE, S3Place, write_s3
from penstock.dev.redshift.control import FILE, Fault, set_fault
from penstock.dev.redshift.databases import render_level
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import Child, start_child, wait_until_ready
from penstock.embedded.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.dev.s3 import S3Server

USER = "awsuser"
PASSWORD = "Penstock1"  # noqa: S105 - a server on loopback for development, whose password is in the documentation
DATABASE = "dev"

_START_SECONDS = 30.0
_CERTIFICATE_DAYS = 3650
_SYSTEM = Path(__file__).with_name("system.sql")
_LOGINS = "local all all md5\nhost all all 127.0.0.1/32 md5\n"
_SETTINGS = {
    # As Redshift reads strings, and as its passwords are kept.
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "password_encryption": "md5",
    "max_connections": "100",
    # What is lost when the machine ends abruptly is not missed; what a killed process wrote stays.
    "fsync": "off",
    "max_pred_locks_per_transaction": "256",
    "max_wal_size": "2GB",
}


@dataclass(frozen=True, slots=True)
class RedshiftServer(Server):
    """A running stand-in; `user` is a superuser, and `database` is there."""

    port: int
    home: Path
    postgres: PostgresServer = field(repr=False)
    child: Child = field(repr=False)
    host: str = LOOPBACK
    user: str = USER
    password: str = PASSWORD
    database: str = DATABASE

    @property
    def pid(self) -> int:
        """The process that clients talk to."""
        return self.child.pid

    @property
    def certificate(self) -> Path:
        """Its own certificate, which clients are to trust for TLS."""
        return self.home / "certificate.pem"

    def alive(self) -> bool:
        """Whether it and its PostgreSQL run."""
        return self.child.alive() and self.postgres.alive()

    def stop(self) -> None:
        """End both."""
        self.child.stop()
        self.postgres.stop()

    def kill(self) -> None:
        """End both as kill -9 would."""
        self.child.kill()
        self.postgres.kill()

    def fault(self, fault: Fault | None) -> None:
        """Put it into a bad state, or out of it."""
        set_fault(self.home, fault)

    def facts(self) -> Mapping[str, str | int]:
        """Address, login, the role for COPY, and the files that steer it."""
        login = {"user": self.user, "password": self.password, "database": self.database}
        files = {"certificate": str(self.certificate), "fault_file": str(self.home / FILE)}
        return {"host": self.host, "port": self.port, **login, "iam_role": ROLE, **files}


def start_redshift(home: Path, *, port: int | None = None, s3: S3Server | None = None) -> RedshiftServer:
    """Start a stand-in with its data under `home`; the first start sets it up, later ones find data and port.

    COPY and UNLOAD find files on `s3`; without it, on the server of `penstock dev up s3`.
    Raises UsageError without PostgreSQL on the machine or when the port is in use.
    """
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    (home / "logins.conf").write_text(_LOGINS)
    postgres = start_postgres(home / "postgres", settings={**_SETTINGS, "hba_file": str(home / "logins.conf")})
    try:
        _set_up(home / "set-up", postgres)
        _write_certificate(home)
        if s3 is not None:
            write_s3(home, S3Place(s3.endpoint, s3.access_key_id, s3.secret_access_key, s3.region))
        settings = home / "settings.json"
        owner = {"user": OWNER, "password": OWNER_PASSWORD}
        backend = {"host": postgres.host, "port": postgres.port, **owner}
        settings.write_text(json.dumps({"home": str(home), "listen": [LOOPBACK, chosen], "backend": backend}))
        command = [sys.executable, "-m", "penstock.dev.redshift.server", str(settings)]
        child = start_child("Redshift's stand-in", command, home / "redshift.log")
        wait_until_ready(child, lambda: is_listening(chosen), _START_SECONDS)
    except BaseException:
        postgres.stop()
        raise
    return RedshiftServer(chosen, home, postgres, child)


def _set_up(done: Path, postgres: PostgresServer) -> None:
    """Give PostgreSQL what Redshift has more, unless an earlier start did so to the end."""
    if done.exists():
        return
    login = f"host={postgres.host} port={postgres.port} user={OWNER} password={OWNER_PASSWORD}"
    with psycopg.connect(f"{login} dbname=postgres", autocommit=True) as connection:
        for statement in (f"DROP DATABASE IF EXISTS {DATABASE}", f"DROP ROLE IF EXISTS {USER}"):
            connection.execute(statement.encode())
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = 'redshift_template'").fetchone():
            connection.execute("ALTER DATABASE redshift_template IS_TEMPLATE false")
            connection.execute("DROP DATABASE redshift_template")
        connection.execute("CREATE DATABASE redshift_template TEMPLATE template0")
    with psycopg.connect(f"{login} dbname=redshift_template", autocommit=True) as connection:
        connection.execute("SET allow_system_table_mods = on")
        connection.execute("SET search_path = pg_catalog")
        connection.execute("SET standard_conforming_strings = off")
        connection.execute(_SYSTEM.read_bytes())
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with psycopg.connect(f"{login} dbname=postgres", autocommit=True) as connection:
        connection.execute("ALTER DATABASE redshift_template IS_TEMPLATE true")
        connection.execute(f"CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{PASSWORD}'".encode())
        connection.execute(f"CREATE DATABASE {DATABASE} OWNER {USER} TEMPLATE redshift_template".encode())
        connection.execute(render_level(DATABASE, "SNAPSHOT").encode())
    done.touch()


def _write_certificate(home: Path) -> None:
    """Sign a certificate for loopback by itself, unless an earlier start did."""
    certificate_file, key_file = home / "certificate.pem", home / "key.pem"
    if certificate_file.exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_CERTIFICATE_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    encoding = serialization.Encoding.PEM
    key_file.touch(mode=0o600)
    key_file.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    certificate_file.write_bytes(certificate.public_bytes(encoding))
