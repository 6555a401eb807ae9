"""A Schematizer that is served to others: users, TLS, several workers, and no secret in anything it says."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.servers.certificates import Authority
from tests.servers.certificates import authority as new_authority
from tests.servers.commands import run_command, start_command
from tests.servers.forked import ended
from tests.servers.test_schematizer_service import ORDERS

from penstock.adapters.registry.access import RegistryAccess
from penstock.adapters.registry.client import HttpRegistry
from penstock.config.specs import SchematizerSpec
from penstock.core.errors import PenstockError, UnfitServerError, UsageError
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user
from penstock.wiring.registry_probe import probe_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer

PASSWORD = "s3cret-Passwörd"
LONG = '{"type": "long"}'


@contextlib.contextmanager
def service(home: Path, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """A running service, its process id and port; all that it says is in `home`/log."""
    port_file, log = home / "port", home / "log"
    port_file.unlink(missing_ok=True)
    options = ["--port", "0", "--port-file", str(port_file), *arguments]
    process = start_command(log, "schematizer", "serve", *options, environment=environment)
    try:
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert process.is_alive(), log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.pid is not None
        yield process.pid, int(port_file.read_text())
    finally:
        process.terminate()
        ended(process, 30)


class Guarded:
    """A service on PostgreSQL with users, TLS and two workers, and what only its clients know."""

    def __init__(self, home: Path, port: int, authority: Authority, token: str) -> None:
        self.home = home
        self.url = f"https://127.0.0.1:{port}"
        self.ca = authority.ca
        self.token = token


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    authority = new_authority(home / "authority")
    certificate, key = authority.sign("registry", "IP:127.0.0.1")
    put_user(home / "users.yaml", "ada", PASSWORD, (GrantEntry(role=Role.ADMIN),))
    put_user(home / "users.yaml", "pipeline", "", (GrantEntry(role=Role.WRITE, namespaces=("shop*",)),))
    token = put_token(home / "users.yaml", "pipeline", "kafka")
    database = f"postgresql://{postgres.user}:{postgres.password}@{postgres.host}:{postgres.port}/postgres"
    options = ["--url-env", "REGISTRY_DATABASE", "--users", str(home / "users.yaml"), "--workers", "2"]
    options += ["--host", "0.0.0.0", "--tls-certificate", certificate, "--tls-key", key]  # noqa: S104 - that is what is tested
    with service(home, *options, environment={"REGISTRY_DATABASE": database}) as (_, port):
        yield Guarded(home, port, authority, token)


@pytest.fixture
def ada(guarded: Guarded) -> Iterator[httpx.Client]:
    """Our own client, signed in as the admin."""
    context = ssl.create_default_context(cafile=guarded.ca)
    with httpx.Client(base_url=guarded.url, verify=context, auth=("ada", PASSWORD), timeout=30) as client:
        yield client


@pytest.mark.nightly
def test_their_client_signs_in_by_password_and_by_token(guarded: Guarded, ada: httpx.Client) -> None:
    common: dict[str, object] = {"url": guarded.url, "ssl.ca.location": guarded.ca, "max.retries": 0}
    basic = SchemaRegistryClient({**common, "basic.auth.user.info": f"ada:{PASSWORD}"})
    bearer = SchemaRegistryClient(
        {
            **common,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": guarded.token,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    )
    body = {"namespace": "shop1", "create_table": "CREATE TABLE s.t (id bigint PRIMARY KEY)"}
    ada.post("/v1/schemas/mysql", json=body).raise_for_status()
    context = SerializationContext("shop1.s.t", MessageField.KEY)

    with basic, bearer:
        schema = bearer.get_latest_version("shop1.s.t-key").schema
        encoded = AvroSerializer(bearer, schema)({"id": 7}, context)
        assert encoded is not None
        assert AvroDeserializer(basic)(encoded, context) == {"id": 7}
        basic.register_schema("theirs-value", Schema(LONG, "AVRO"))
        with pytest.raises(SchemaRegistryError) as refused:
            bearer.register_schema("theirs-value", Schema(LONG, "AVRO"))
        assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
    with SchemaRegistryClient({**common, "basic.auth.user.info": "ada:wrong"}) as stranger:
        with pytest.raises(SchemaRegistryError) as unknown:
            stranger.get_subjects()
        assert unknown.value.http_status_code == 401


def test_our_clients_sign_in_and_trust_the_authority(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_TOKEN", guarded.token)
    access = RegistryAccess(guarded.url, token_env="REGISTRY_TOKEN", ca_file=guarded.home.parent / guarded.ca)
    spec = SchematizerSpec.model_validate({"url": guarded.url, "token_env": "REGISTRY_TOKEN", "ca_file": guarded.ca})

    registry = HttpRegistry(access)
    registered = registry.register("shopdb", ORDERS)

    assert HttpRegistry(access).value_schema(registered.value_schema_id)
    probe_registry(spec, 10)
    with pytest.raises(PenstockError, match="does not have the role"):
        registry.register("other", ORDERS)
    with pytest.raises(UnfitServerError, match="refused the login"):
        probe_registry(spec.model_copy(update={"token_env": None}), 10)
    with pytest.raises(PenstockError, match="CERTIFICATE_VERIFY_FAILED"):
        probe_registry(spec.model_copy(update={"ca_file": None}), 10)
    monkeypatch.delenv("REGISTRY_TOKEN")
    with pytest.raises(UsageError, match="REGISTRY_TOKEN is not set"):
        probe_registry(spec, 10)


def test_show_signs_in(guarded: Guarded) -> None:
    options = ["--url", guarded.url, "--user", "ada", "--password-env", "PW", "--ca-file", guarded.ca]

    shown = run_command("schematizer", "show", *options, environment={"PW": PASSWORD})

    assert shown.returncode == 0, shown.stderr
    assert "Topics" in shown.stdout


def test_no_secret_is_in_anything_that_is_said(guarded: Guarded, ada: httpx.Client, postgres: PostgresServer) -> None:
    answers = []
    tries: list[dict[str, str]] = [
        {"Authorization": f"Bearer {guarded.token}"},
        {"Authorization": f"Bearer {guarded.token}x"},
        {"Authorization": f"Basic {guarded.token}"},
        {"X-Penstock-Author": "ada"},
    ]
    for headers in tries:
        for method, path in (
            ("GET", "/subjects"),
            ("PUT", "/v1/namespaces/a"),
            ("POST", "/subjects/a/versions"),
            ("GET", "/%00"),
        ):
            answers.append(ada.request(method, path, headers=headers, auth=None, content=b"\xff{"))
    answers += [
        ada.post("/subjects/a/versions", json={"schema": "\x00", "id": 1 << 80}),
        ada.get("/v1/notes/1" + "0" * 30),
    ]
    assert {answer.status_code for answer in answers} >= {401, 403, 404, 422}
    assert all(answer.status_code < 500 for answer in answers)
    serve = ["schematizer", "serve", "--port", "0"]
    bad = run_command(*serve, "--url", f"postgresql://u:{PASSWORD}@127.0.0.1:1/d")
    worse = run_command(*serve, "--url", f"postgres:/u:{PASSWORD}@h:x/d")
    assert (bad.returncode, worse.returncode) == (1, 2)

    said = [str(answer.headers) + answer.text for answer in answers]
    said += [(guarded.home / "log").read_text(), bad.stdout + bad.stderr, worse.stdout + worse.stderr]
    for secret in (PASSWORD, guarded.token, f":{postgres.password}@", "scrypt$"):
        assert not any(secret in text for text in said), secret


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "penstock schematizer user add"),  # noqa: S104 - that is what is refused
        (["--host", "::"], "penstock schematizer user add"),
        (["--behind-proxy", "127.0.0.1"], "penstock schematizer user add"),
        (["--host", "0.0.0.0", "--users", "users.yaml"], "--tls-certificate"),  # noqa: S104 - the same
        (["--tls-key", "key.pem"], "--tls-certificate"),
        (["--tls-certificate", "/proc/none"], "cannot be served"),
        (["--users", "/proc/none"], "cannot be read"),
        (["--url", "sqlite:///a", "--url-env", "A"], "give one of them"),
    ],
)
def test_doors_are_not_left_open_by_mistake(tmp_path: Path, options: list[str], told: str) -> None:
    database = [] if "--url" in options else ["--url", f"sqlite:///{tmp_path}/never.db"]

    said = run_command("schematizer", "serve", "--port", "0", *database, *options)

    assert said.returncode == 2, said.stderr
    assert told in " ".join(said.stderr.split())
    assert "Traceback" not in said.stderr


@pytest.mark.nightly
def test_a_client_without_a_certificate_is_hung_up_on_where_one_is_asked_for(tmp_path: Path) -> None:
    authority = new_authority(tmp_path / "ca")
    certificate, key = authority.sign("registry", "IP:127.0.0.1")
    context = ssl.create_default_context(cafile=authority.ca)
    database = ["--url", f"sqlite:///{tmp_path}/a.db"]
    options = [*database, "--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", authority.ca]
    with service(tmp_path, *options) as (_, port):
        with (
            httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as stranger,
            pytest.raises(httpx.TransportError),
        ):
            stranger.get("/subjects")
        context.load_cert_chain(*authority.sign("client", "DNS:client"))
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as known:
            assert known.get("/subjects").status_code == 200


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as listed:  # noqa: PTH123 - not a file
        return [int(each) for each in listed.read().split()]


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: PTH110 - not a file
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.nightly
def test_workers_are_replaced_and_end_with_their_parent(tmp_path: Path) -> None:
    with service(tmp_path, "--workers", "2", "--url", f"sqlite:///{tmp_path}/a.db") as (pid, port):
        first = children(pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        assert gone(first[:1])
        deadline = time.monotonic() + 10
        while len(children(pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(children(pid)) == 2
        assert httpx.get(f"http://127.0.0.1:{port}/subjects", timeout=10).status_code == 200
        last = children(pid)

        os.kill(pid, signal.SIGKILL)

        assert gone(last)


@pytest.mark.nightly
def test_workers_that_cannot_begin_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("users: [")
    options = ["--port", "0", "--workers", "2", "--url", f"sqlite:///{tmp_path}/a.db"]

    said = run_command("schematizer", "serve", *options, "--users", str(tmp_path / "users.yaml"))

    assert said.returncode == 2
    assert said.stderr.count("is not YAML") == 1
