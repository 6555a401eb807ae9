"""What clouds answer and our servers for tests do not, as the clouds' documentation has it; and keys that are none."""

from __future__ import annotations

import http.server
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.servers.clouds import CLOUDS

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import PenstockError, SinkError, UnavailableError, UnfitServerError
from penstock.embedded.ports import LOOPBACK
from penstock.wiring.objects_probe import probe_objects

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for cloud in CLOUDS.values():
        for name, value in cloud.keys.items():
            monkeypatch.setenv(name, value)


@contextmanager
def answering(status: int, body: str, content_type: str = "application/xml") -> Iterator[str]:
    """Answer every request so; yield the URL."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 01:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - the names of the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "status", "code", "hint"),
    [
        ("s3://b/p", 400, "ExpiredToken", "have expired: renew AWS_ACCESS_KEY_ID"),
        ("s3://b/p", 403, "AccessDenied", "what they are allowed to do there"),
        ("s3://b/p", 507, "QuotaExceeded", "have the quota raised"),
        ("az://c/p", 403, "AuthenticationFailed", "check AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://c/p", 403, "AccountIsDisabled", "make room there"),
        ("gs://b/p", 401, "AuthenticationRequired", "check GOOGLE_APPLICATION_CREDENTIALS"),
        ("gs://b/p", 403, "AccessDenied", "check GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_what_each_kind_of_store_refuses_comes_with_what_to_do(url: str, status: int, code: str, hint: str) -> None:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Why.\nRequestId:1\nTime:2</Message></Error>"

    with answering(status, body) as endpoint, pytest.raises(SinkError) as raised:
        open_objects(ObjectsSpec(url, endpoint, timeout_seconds=2.0)).put("x", b"1")

    assert hint in raised.value.hint
    assert f"cannot write x at {url}" in raised.value.message
    assert raised.value.message.endswith(f"{code}: Why.")


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        ("AccessDenied", SinkError, "what they are allowed to do there"),
        ("ServiceUnavailable", UnavailableError, "runs and can be reached"),
    ],
)
def test_a_file_that_s3_does_not_delete_with_the_others_is_an_error(
    code: str, kind: type[PenstockError], hint: str
) -> None:
    """DeleteObjects answers 200, and says of each key in the body what became of it."""
    refused = f"<Error><Key>p/y</Key><Code>{code}</Code><Message>Why.</Message></Error>"
    body = f"<DeleteResult><Deleted><Key>p/x</Key></Deleted>{refused}</DeleteResult>"

    with answering(200, body) as endpoint, pytest.raises(kind, match=f"cannot delete 2 files.*{code}") as raised:
        open_objects(ObjectsSpec("s3://b/p", endpoint, timeout_seconds=1.0)).delete(["x", "y"])

    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [
        ("403 Forbidden", SinkError, "check AZURE_STORAGE_ACCOUNT_NAME"),
        ("409 Conflict", SinkError, "check objects.url"),
        ("503 Busy", UnavailableError, "runs and can be reached"),
    ],
)
def test_a_file_that_azure_does_not_delete_with_the_others_is_an_error(
    status: str, kind: type[PenstockError], hint: str
) -> None:
    """Blob Batch answers 202, and has an answer for each file in the body."""
    part = "--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n\r\n"
    body = f"{part.format(number=0, status='202 Accepted')}{part.format(number=1, status=status)}--b--\r\n"

    with answering(202, body, "multipart/mixed; boundary=b") as endpoint, pytest.raises(kind) as raised:
        open_objects(ObjectsSpec("az://c/p", endpoint, timeout_seconds=1.0)).delete(["x", "y"])

    assert "p/y" in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("url", "keys", "hint"),
    [
        ("az://c/p", {"AZURE_STORAGE_ACCOUNT_NAME": ""}, "check AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://c/p", {"AZURE_STORAGE_ACCOUNT_KEY": "no base64"}, "check AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://c/p", {"AZURE_STORAGE_ACCOUNT_KEY": "", "AZURE_STORAGE_SAS_TOKEN": "what"}, "AZURE_STORAGE_SAS_TOKEN"),
        ("gs://b/p", {"GOOGLE_SERVICE_ACCOUNT_KEY": "{"}, "or GOOGLE_SERVICE_ACCOUNT_KEY"),
        (
            "gs://b/p",
            {"GOOGLE_SERVICE_ACCOUNT_KEY": "", "GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"},
            "check GOOGLE_APPLICATION_CREDENTIALS (a file)",
        ),
    ],
)
def test_keys_that_are_none_are_named_before_a_server_is_asked(
    monkeypatch: pytest.MonkeyPatch, url: str, keys: dict[str, str], hint: str
) -> None:
    for name, value in keys.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)

    with pytest.raises(SinkError) as raised:
        open_objects(ObjectsSpec(url, "http://127.0.0.1:1"))

    assert f"cannot open files at {url}" in raised.value.message
    assert hint in raised.value.hint


def test_a_store_that_shows_something_else_is_not_fit() -> None:
    with answering(200, "not what was written") as endpoint:
        objects = open_objects(ObjectsSpec("s3://b/p", endpoint, timeout_seconds=2.0))
        with pytest.raises(UnfitServerError, match="is read back as something else"):
            probe_objects(objects, "shop")
