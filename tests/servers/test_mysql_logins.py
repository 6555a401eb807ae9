"""Ways to log in to MariaDB and MySQL, and what is said of those that we cannot go."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import address

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.login import Tls
from penstock.core.errors import UnfitServerError, UsageError
from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

NO_TLS, WITH_TLS = None, Tls("none")


@pytest.fixture
def root(any_source: MariadbServer | OracleMysql) -> Iterator[pymysql.Connection]:
    with closing(connect(address(any_source))) as opened:
        yield opened
        ask(opened, "DROP USER IF EXISTS plain")


@pytest.fixture
def plain(any_source: MariadbServer | OracleMysql) -> MysqlServer:
    """The user `plain`, whom the test creates."""
    return replace(address(any_source), user="plain", password="sésame")


@pytest.fixture
def create(root: pymysql.Connection) -> Callable[[str], None]:
    """Create the user `plain`, who logs in in the way that is given."""

    def create(how: str) -> None:
        ask(root, "DROP USER IF EXISTS plain")
        ask(root, f"CREATE USER plain {how}")

    return create


def who(server: MysqlServer) -> object:
    with closing(connect(server)) as connection:
        return ask(connection, "SELECT CURRENT_USER()")[0][0]


def only(root: pymysql.Connection, flavour: str) -> None:
    if read_flavour(root) != flavour:
        pytest.skip(f"the plugin is one of {flavour}")


def plugin_that(root: pymysql.Connection, name: str, library: str) -> None:
    """Have the server load a plugin that it has, or skip the test."""
    try:
        ask(root, f"INSTALL PLUGIN {name} SONAME '{library}'")
    except UnfitServerError as error:
        if "already" not in str(error) and "exists" not in str(error):
            pytest.skip(f"this server has no {library}")


def test_mysql_native_password(root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]) -> None:
    only(root, "mariadb")
    create("IDENTIFIED VIA mysql_native_password USING PASSWORD('sésame')")

    assert who(plain) == "plain@%"


@pytest.mark.parametrize("tls", [NO_TLS, WITH_TLS])
def test_caching_sha2_password_by_the_long_way_and_then_the_short_one(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None], tls: Tls | None
) -> None:
    only(root, "mysql")
    create("IDENTIFIED WITH caching_sha2_password BY 'sésame'")
    ask(root, "FLUSH PRIVILEGES")

    keys = []
    for _ in range(2):
        with closing(connect(replace(plain, tls=tls))) as connection:
            assert ask(connection, "SELECT CURRENT_USER()") == [("plain@%",)]
            keys.append(getattr(connection, "server_public_key") is not None)  # noqa: B009 - not in the types

    # The server's key is asked for where the password itself must be sent, and nothing else hides it.
    assert keys == [tls is None, False]


@pytest.mark.parametrize("tls", [NO_TLS, WITH_TLS])
def test_sha256_password(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None], tls: Tls | None
) -> None:
    only(root, "mysql")
    create("IDENTIFIED WITH sha256_password BY 'sésame'")

    assert who(replace(plain, tls=tls)) == "plain@%"


def test_ed25519(root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]) -> None:
    pytest.importorskip("nacl", reason="the environment is older than pyproject.toml: make setup")
    only(root, "mariadb")
    plugin_that(root, "ed25519", "auth_ed25519")
    create("IDENTIFIED VIA ed25519 USING PASSWORD('sésame')")

    assert who(plain) == "plain@%"


@pytest.mark.parametrize("tls", [NO_TLS, WITH_TLS])
def test_a_wrong_password_is_told_whatever_the_plugin(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None], tls: Tls | None
) -> None:
    create("IDENTIFIED BY 'sésame'")
    if read_flavour(root) == "mariadb":
        tls = None

    with pytest.raises(UnfitServerError, match="was refused") as caught:
        connect(replace(plain, password="wrong", tls=tls))

    assert "password_env" in caught.value.hint


def test_a_missing_package_is_named(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(root, "mysql")
    create("IDENTIFIED WITH caching_sha2_password BY 'sésame'")
    ask(root, "FLUSH PRIVILEGES")
    monkeypatch.setattr("pymysql._auth._have_cryptography", False)

    with pytest.raises(UsageError, match="'cryptography' package is required"):
        connect(plain)


def test_a_user_of_the_unix_socket_is_told_to_have_a_password(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]
) -> None:
    only(root, "mariadb")
    create("IDENTIFIED VIA unix_socket")

    with pytest.raises(UnfitServerError, match="was refused") as caught:
        connect(plain)

    assert "unix_socket" in caught.value.hint
    assert "mysql_native_password" in caught.value.hint


def test_a_plugin_that_we_lack_is_named_with_those_that_we_have(tmp_path: Path, mysql_package: DebianPackage) -> None:
    del mysql_package
    options = ["--plugin-load-add=authentication_webauthn.so", "--loose-authentication-webauthn-rp-id=example.com"]
    with start_mysql(tmp_path, options=options) as server:
        with closing(connect(address(server))) as opened:
            ask(opened, "CREATE USER plain IDENTIFIED WITH authentication_webauthn")

        with pytest.raises(UnfitServerError, match=r"uses an unsupported authentication plugin: .*webauthn") as caught:
            connect(replace(address(server), user="plain"))

    assert "ALTER USER so that it logs in by caching_sha2_password" in caught.value.hint


def test_a_password_is_never_sent_in_clear_text(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]
) -> None:
    only(root, "mariadb")
    plugin_that(root, "pam", "auth_pam_v1")
    create("IDENTIFIED VIA pam USING 'mariadb'")

    with pytest.raises(UnfitServerError, match=r"takes logins over TLS only: .* in clear text"):
        connect(plain)


def test_an_expired_password_is_told(
    root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]
) -> None:
    create("IDENTIFIED BY 'sésame'")
    ask(root, "ALTER USER plain PASSWORD EXPIRE")

    # MySQL ends the login, MariaDB the first question.
    with pytest.raises(UnfitServerError, match=r"the password of plain@.* has expired") as caught:
        who(plain)

    assert "PASSWORD EXPIRE NEVER" in caught.value.hint


def test_a_locked_user_is_told(root: pymysql.Connection, plain: MysqlServer, create: Callable[[str], None]) -> None:
    create("IDENTIFIED BY 'sésame'")
    ask(root, "ALTER USER plain ACCOUNT LOCK")

    with pytest.raises(UnfitServerError, match=r"the user of plain@.* is locked") as caught:
        connect(plain)

    assert "ACCOUNT UNLOCK" in caught.value.hint
