"""Connections to MariaDB and MySQL are encrypted as `tls` says, or refused with the reason."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest
from tests.servers.certificates import Authority, authority
from tests.servers.kinds import first
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, server_of
from penstock.adapters.mysql.history import head, start_of_log, what_log_lacks
from penstock.adapters.mysql.login import Tls
from penstock.adapters.mysql.preflight import examine
from penstock.core.errors import UnfitServerError, UsageError
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("trusted") / "ca")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("stranger") / "ca")


@pytest.fixture(scope="module", params=first(1, "mariadb", "mysql"))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, trusted: Authority
) -> Iterator[MysqlServer]:
    """A server whose certificate is for 127.0.0.1 and for no name."""
    if request.param == "mysql":
        request.getfixturevalue("mysql_package")
    cert, key = trusted.sign("server", "IP:127.0.0.1")
    options = [f"--ssl-ca={trusted.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
    home = tmp_path_factory.mktemp("tls")
    start = start_mariadb if request.param == "mariadb" else start_mysql
    with start(home, options=options) as running:
        yield MysqlServer(running.host, running.port, running.user, running.password)


def protocol(server: MysqlServer) -> str:
    with closing(connect(server)) as connection:
        return str(ask(connection, "SHOW STATUS LIKE 'Ssl_version'")[0][1])


def root(server: MysqlServer, *statements: str) -> None:
    with closing(connect(server)) as connection:
        for statement in statements:
            ask(connection, statement)


def test_without_tls_nothing_is_encrypted_even_where_it_is_offered(server: MysqlServer) -> None:
    assert protocol(server) == ""


@pytest.mark.parametrize("verify", ["full", "ca", "none"])
def test_a_server_that_is_who_it_should_be_is_let_in(
    server: MysqlServer, trusted: Authority, verify: Literal["full", "ca", "none"]
) -> None:
    tls = Tls(verify, None if verify == "none" else trusted.ca)

    assert protocol(replace(server, tls=tls)).startswith("TLSv1.")


def test_a_certificate_of_a_stranger_is_not_trusted(server: MysqlServer, stranger: Authority) -> None:
    for tls in (Tls("full", stranger.ca), Tls("ca", stranger.ca), Tls("full"), Tls("ca")):
        with pytest.raises(UnfitServerError, match="untrusted certificate of") as caught:
            connect(replace(server, tls=tls))

        assert "give `tls` the `ca` that has signed it" in caught.value.hint


def test_a_certificate_for_another_host_is_not_trusted_unless_nobody_asks(
    server: MysqlServer, trusted: Authority
) -> None:
    elsewhere = replace(server, host="localhost", tls=Tls("full", trusted.ca))

    with pytest.raises(UnfitServerError, match=r"untrusted certificate of .*localhost") as caught:
        connect(elsewhere)

    assert "tls: {verify: ca}" in caught.value.hint


def test_the_binlog_is_read_over_tls_too(server: MysqlServer, trusted: Authority) -> None:
    encrypted = replace(server, tls=Tls("full", trusted.ca))
    with closing(connect(encrypted)) as connection:
        ask(connection, "CREATE DATABASE IF NOT EXISTS shop")
        ask(connection, "CREATE OR REPLACE VIEW shop.now AS SELECT 1 AS a")
        ask(connection, "DROP TABLE IF EXISTS shop.t")
        ask(connection, "CREATE TABLE shop.t (a INT, b LONGBLOB)")
        begin = head(connection)
        ask(connection, "INSERT INTO shop.t VALUES (1, REPEAT('x', 3000000)), (2, 'small')")
        for number in range(200):
            ask(connection, f"INSERT INTO shop.t VALUES ({number}, REPEAT('y', 20000))")
        what_log_lacks(connection, lambda _: True)
        assert server_of(connection).tls == encrypted.tls

    payloads = []
    with closing(open_binlog(encrypted, begin, 904_001, lambda _: True, Stop.END_OF_LOG)) as stream:
        assert type(stream._socket).__name__ == "SSLSocket"
        while not stream.at_end():
            payloads += [item.payload for item in one_by_one(stream.read(5)) if isinstance(item, RowsLogged)]

    assert sum(payload.count(b"x" * 3_000_000) for payload in payloads) == 1
    assert sum(payload.count(b"y" * 20_000) for payload in payloads) == 200


def test_a_change_comes_at_once_over_tls(server: MysqlServer, trusted: Authority) -> None:
    """Nothing stays behind in the TLS layer, where poll does not see it."""
    encrypted = replace(server, tls=Tls("full", trusted.ca))
    root(server, "CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.u (a INT, b LONGBLOB)")
    with (
        closing(connect(server)) as connection,
        closing(open_binlog(encrypted, head(connection), 904_002, lambda _: True, Stop.NEVER)) as stream,
    ):
        for size in (1, 16_000, 70_000, 9_000_000):
            ask(connection, f"INSERT INTO shop.u VALUES (1, REPEAT('z', {size}))")
            found = 0
            for _ in range(200):
                items = one_by_one(stream.read(0.5))
                found += sum(item.payload.count(b"z" * size) for item in items if isinstance(item, RowsLogged))
                if found:
                    break

            assert found == 1


def test_a_user_who_must_show_a_certificate_shows_ours(server: MysqlServer, trusted: Authority) -> None:
    cert, key = trusted.sign("client", "DNS:client")
    root(server, "DROP USER IF EXISTS x", "CREATE USER x IDENTIFIED BY 'x' REQUIRE X509")
    as_x = replace(server, user="x", password="x", tls=Tls("full", trusted.ca))

    with pytest.raises(UnfitServerError, match="was refused") as caught:
        connect(as_x)

    assert "`tls` with cert and key" in caught.value.hint
    assert protocol(replace(as_x, tls=Tls("full", trusted.ca, cert, key))).startswith("TLSv1.")


def test_a_user_who_must_use_tls_is_told_so(server: MysqlServer) -> None:
    root(server, "DROP USER IF EXISTS s", "CREATE USER s IDENTIFIED BY 's' REQUIRE SSL")

    with pytest.raises(UnfitServerError, match="was refused") as caught:
        connect(replace(server, user="s", password="s"))

    assert "a user with REQUIRE SSL, " in caught.value.hint


def test_a_server_that_takes_tls_only_is_told(server: MysqlServer, trusted: Authority) -> None:
    encrypted = replace(server, tls=Tls("full", trusted.ca))
    root(encrypted, "SET GLOBAL require_secure_transport = ON")
    try:
        # MariaDB before 11 says no more than that access is denied.
        with pytest.raises(UnfitServerError, match=r"over TLS only|was refused") as caught:
            connect(server)
    finally:
        root(encrypted, "SET GLOBAL require_secure_transport = OFF")

    assert "tls: {ca: FILE}" in caught.value.hint or "require_secure_transport, needs `tls`" in caught.value.hint


def test_a_server_without_tls_is_refused_where_tls_is_demanded(
    request: pytest.FixtureRequest, tmp_path: Path, server: MysqlServer
) -> None:
    is_mysql = "mysql" in request.node.name
    with (
        start_mysql(tmp_path, options=["--tls-version="])
        if is_mysql
        else start_mariadb(tmp_path, options=["--skip-ssl"]) as running
    ):
        plain = replace(server, port=running.port, tls=Tls("none"))

        with pytest.raises(UnfitServerError, match="does not offer TLS, which `tls` demands"):
            connect(plain)


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        (Tls(ca="/missing/ca.pem"), "ca /missing/ca.pem of `tls` cannot be used: .*No such file"),
        (Tls(cert="/missing/cert.pem"), "cert /missing/cert.pem with key in it of `tls` cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_named(server: MysqlServer, tls: Tls, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        connect(replace(server, tls=tls))


def test_a_file_that_is_no_certificate_is_named(server: MysqlServer, tmp_path: Path, trusted: Authority) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")

    with pytest.raises(UsageError, match=r"ca\.pem of `tls` cannot be used"):
        connect(replace(server, tls=Tls(ca=str(tmp_path / "ca.pem"))))
    with pytest.raises(UsageError, match=r"with key .* of `tls` cannot be used"):
        connect(replace(server, tls=Tls("full", trusted.ca, trusted.ca, str(tmp_path / "ca.pem"))))


def test_the_preflight_says_how_the_connection_is_encrypted(server: MysqlServer, trusted: Authority) -> None:
    found = {}
    for tls in (None, Tls("full", trusted.ca), Tls("none")):
        with closing(connect(replace(server, tls=tls))) as connection:
            found[tls] = next(finding for finding in examine(connection) if finding.subject == "tls")

    assert [finding.level for finding in found.values()] == ["ok", "ok", "warning"]
    assert "not encrypted" in found[None].message
    assert found[Tls("full", trusted.ca)].message.startswith("TLSv1.")
    assert "anybody could answer" in found[Tls("none")].message


def test_the_start_of_the_log_is_read_over_tls(server: MysqlServer, trusted: Authority) -> None:
    with closing(connect(replace(server, tls=Tls("full", trusted.ca)))) as connection:
        assert start_of_log(connection).offset == 4
