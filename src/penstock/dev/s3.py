"""A private S3 server: S3Proxy on a directory, from pinned jars, on loopback.

Settings are those of S3Proxy's own documentation. It checks keys and signatures
as Amazon's does, and answers with Amazon's error codes. What it lacks: rules of
lifecycle (501 NotImplemented), and a key `a` beside a key `a/b`, because keys are
files and folders. Where it checks no keys, Google's clients may talk to it too:
obstore's speaks the protocol that Google took over from S3 (the XML API).
"""

from __future__ import annotations

import http.client
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.java import java
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACCESS_KEY_ID = "penstock"
SECRET_ACCESS_KEY = "penstock-secret"  # noqa: S105 - a server on loopback for development, whose key is in the documentation
REGION = "us-east-1"
BUCKET = "penstock"

_START_SECONDS = 60.0
_PROBE_SECONDS = 5.0

_JVM_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")

_SETTINGS = """\
s3proxy.endpoint=http://{host}:{port}
s3proxy.authorization={authorization}
s3proxy.identity={identity}
s3proxy.credential={credential}
# In bytes: what one request without chunks may hold.
s3proxy.v4-max-non-chunked-request-size=1073741824
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={data}
"""

# Without it, every request is told in detail.
_LOGGING = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class S3Server(OneProcessServer):
    """A running server with one bucket in it."""

    access_key_id: str = ACCESS_KEY_ID
    secret_access_key: str = SECRET_ACCESS_KEY
    region: str = REGION
    bucket: str = BUCKET

    @property
    def endpoint(self) -> str:
        """Its URL, as S3's clients take it."""
        return f"http://{self.host}:{self.port}"

    def facts(self) -> Mapping[str, str | int]:
        """Address, keys and the bucket, and where objects go as a config takes it."""
        keys = {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}
        place = {"region": self.region, "bucket": self.bucket, "url": f"s3://{self.bucket}"}
        return {**OneProcessServer.facts(self), "endpoint": self.endpoint, **keys, **place}


def start_s3(home: Path, *, port: int | None = None, checks_keys: bool = True) -> S3Server:
    """Start a server with its data under `home`; later starts find the data and port of the first.

    Without `checks_keys` it answers everybody, and looks at no signature.
    Raises UsageError without Java or when the port is in use, UnavailableError
    when the jars cannot be fetched.
    """
    home = home.resolve()
    class_path = os.pathsep.join(map(str, ensure_jars(JarSet.S3PROXY)))
    # A bucket is a folder.
    (home / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    settings, logging = home / "s3proxy.conf", home / "logback.xml"
    keys = {"identity": ACCESS_KEY_ID, "credential": SECRET_ACCESS_KEY}
    keys["authorization"] = "aws-v2-or-v4" if checks_keys else "none"
    settings.write_text(_SETTINGS.format(host=LOOPBACK, port=chosen, data=home / "data", **keys))
    logging.write_text(_LOGGING)
    options = [*_JVM_OPTIONS, f"-Dlogback.configurationFile={logging}"]
    command = [java(), *options, "-cp", class_path, "org.gaul.s3proxy.Main", "--properties", str(settings)]
    child = start_child("S3Proxy", command, home / "s3proxy.log")
    # Without a key, a list of buckets is refused as S3 refuses it.
    expected = HTTPStatus.FORBIDDEN if checks_keys else HTTPStatus.OK
    wait_until_ready(child, lambda: _answers(chosen, expected), _START_SECONDS)
    return S3Server(chosen, home, child)


def _answers(port: int, expected: HTTPStatus) -> bool:
    """Whether the server answers a request without a key as it should."""
    if not is_listening(port):
        return False
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == expected
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
