"""How we log in to a server: encrypted or not, and what its refusals mean."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NoReturn

import pymysql
from pymysql.constants import CR, ER

from penstock.core.errors import UnavailableError, UnfitServerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.errors import PenstockError

_SECURE_TRANSPORT_REQUIRED: Final = 3159
_NO_PASSWORD: Final = 1698
_REFUSED: Final = frozenset({ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.HOST_NOT_PRIVILEGED})
_CLEAR_TEXT: Final = ("mysql_clear_password", "dialog")

_PLUGINS: Final = "caching_sha2_password, sha256_password, mysql_native_password or MariaDB's ed25519"
_NO_TLS: Final = (
    "{server} does not offer TLS, which `tls` demands",
    "switch it on at the server (ssl_cert and ssl_key), or leave `tls` out if the network between is safe",
)
_TLS_ONLY: Final = ("{server} takes logins over TLS only: {said}", "give it `tls`, such as `tls: {ca: FILE}`")
_UNKNOWN_PLUGIN: Final = (
    "{server} uses an unsupported authentication plugin: {said}",
    f"ALTER USER so that it logs in by {_PLUGINS}",
)
_BY_SOCKET: Final = (
    "{server} was refused: {said}",
    f"the user logs in by unix_socket, without a password: ALTER USER so that it logs in by {_PLUGINS}",
)
_EXPIRED: Final = (
    "the password of {server} has expired: {said}",
    "ALTER USER ... IDENTIFIED BY a new password, and PASSWORD EXPIRE NEVER if no person uses it",
)
_LOCKED: Final = ("the user of {server} is locked: {said}", "ALTER USER ... ACCOUNT UNLOCK")
_BLOCKED: Final = (
    "{server} was refused: {said}",
    "on the server: FLUSH HOSTS, or TRUNCATE performance_schema.host_cache; then look for what breaks connections",
)
# By the server's number, or the driver's (from 2000 on). MariaDB has another one for a locked user.
_EXPLAINED: Final = {
    CR.CR_SSL_CONNECTION_ERROR: _NO_TLS,
    _SECURE_TRANSPORT_REQUIRED: _TLS_ONLY,
    CR.CR_AUTH_PLUGIN_CANNOT_LOAD: _UNKNOWN_PLUGIN,
    ER.NOT_SUPPORTED_AUTH_MODE: _UNKNOWN_PLUGIN,
    1524: _UNKNOWN_PLUGIN,
    _NO_PASSWORD: _BY_SOCKET,
    1820: _EXPIRED,
    1862: _EXPIRED,
    3118: _LOCKED,
    4151: _LOCKED,
    ER.HOST_IS_BLOCKED: _BLOCKED,
}


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption, as `tls` of a source says it; the files are in PEM.

    `verify` is what must be right with the server's certificate: "full": `ca`, or
    without one this machine's authorities, has signed it, and it is for the host
    that we connect to; "ca": it is signed; "none": nothing, anybody could answer.
    """

    verify: Literal["full", "ca", "none"] = "full"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What a connection is encrypted by. UsageError for files that cannot be used."""
    files = f"ca {tls.ca}"
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(files, error) from error
    # Python 3.13 would refuse the certificates that MySQL makes for itself.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = tls.verify == "full"
    context.verify_mode = ssl.CERT_NONE if tls.verify == "none" else ssl.CERT_REQUIRED
    if tls.cert is not None:
        files = f"cert {tls.cert} with key {tls.key or 'in it'}"
        try:
            # Never ask a terminal for the key's password: a pipeline may have none.
            context.load_cert_chain(tls.cert, tls.key, password="")
        except (OSError, ssl.SSLError) as error:
            raise _unusable(files, error) from error
    return context


def clear_text_plugins(tls: Tls | None) -> dict[str, Callable[[pymysql.Connection], object]]:
    """For pymysql: the plugins that would send the password as it is, which they may over TLS only."""
    return dict.fromkeys(_CLEAR_TEXT, RefusedPlugin) if tls is None else {}


class RefusedPlugin:
    """An authentication plugin that we do not support."""

    def __init__(self, connection: pymysql.Connection) -> None:
        """Be made by pymysql when the server asks for the plugin."""

    def authenticate(self, packet: object) -> NoReturn:
        """Refuse before anything is sent."""
        del packet
        raise pymysql.err.OperationalError(_SECURE_TRANSPORT_REQUIRED, "the server asks for the password in clear text")


def explain_login(error: pymysql.err.MySQLError, server: str, tls: Tls | None) -> PenstockError | None:
    """Turn a driver's error into ours if it is one of logging in to `server`, else None."""
    code, said = (error.args[0], error.args[-1]) if error.args else (0, "")
    original = getattr(error, "original_exception", None)
    if isinstance(original, ssl.SSLError):
        return _explain_tls(original, server)
    if code in _EXPLAINED:
        message, hint = _EXPLAINED[code]
        return UnfitServerError(message.format(server=server, said=said), hint)
    if code not in _REFUSED:
        return None
    hint = "check the user, and the password in the environment variable that password_env names"
    if tls is None:
        hint += "; a user with REQUIRE SSL, or any on a server with require_secure_transport, needs `tls`"
    elif tls.cert is None:
        hint += "; a user with REQUIRE X509 needs `tls` with cert and key"
    return UnfitServerError(f"{server} was refused: {said}", hint)


def _explain_tls(error: ssl.SSLError, server: str) -> PenstockError:
    """What is wrong with the server's certificate, or with ours."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        if "ALERT" in str(error).upper():
            hint = "check cert and key of `tls`: the server must know who signed them"
            return UnfitServerError(f"{server} ended the TLS handshake: {error}", hint)
        return UnavailableError(f"the TLS handshake with {server} broke: {error}", "check the network, and try again")
    message = f"untrusted certificate of {server}: {error.verify_message}"
    # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
    if error.verify_code in {62, 64}:
        hint = "connect by a name that the certificate has, or check who signed it only: `tls: {verify: ca}`"
    elif "expired" in error.verify_message:
        hint = "give the server a new certificate, and look at both clocks"
    else:
        hint = "give `tls` the `ca` that has signed it (of MySQL's own certificates: ca.pem in its data directory)"
    return UnfitServerError(message, hint)


def _unusable(files: str, error: Exception) -> UsageError:
    message = f"{files} of `tls` cannot be used: {error}"
    return UsageError(message, "give files in PEM that this process may read; a key must have no password")
