"""Files on a real S3, whole pipelines' files among them, and what is said when it refuses."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.sink_case import FIRST, DuckdbTarget, Place

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.errors import PenstockError, SinkError, UnavailableError, UnfitServerError
from penstock.dev.ports import LOOPBACK, free_port
from penstock.dev.s3 import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY
from penstock.wiring.objects_probe import probe_objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.dev.s3 import S3Server

KEYS = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY}


@pytest.fixture
def spec(s3: S3Server, fresh_name: str) -> ObjectsSpec:
    return ObjectsSpec(f"s3://{BUCKET}/{fresh_name}", s3.endpoint, **KEYS, timeout_seconds=20.0)


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """Answer every request as a store documents that it does; yield the URL."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
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


def test_a_store_is_written_read_listed_and_deleted_from(spec: ObjectsSpec) -> None:
    objects = open_objects(spec)
    keys = [
        "shop/a%2Fb/ü 1.csv.gz",
        "shop/orders/0/1.parquet",
        "shop/orders/0/2.parquet",
        "shop/orders_old/0/1.parquet",
    ]
    for key in keys:
        objects.put(key, key.encode())
    objects.put(keys[1], b"again")

    assert objects.list("shop/orders") == keys[1:3]
    assert (objects.get(keys[0]), objects.get(keys[1])) == (keys[0].encode(), b"again")

    objects.delete([*keys[:2], "shop/gone"])
    objects.delete([])

    assert objects.list("shop") == keys[2:]
    assert not objects.exists(keys[0])
    with pytest.raises(SinkError, match=r"cannot read shop/orders/0/1\.parquet"):
        objects.get(keys[1])


def test_rows_go_through_s3_into_a_warehouse(spec: ObjectsSpec, tmp_path: Path) -> None:
    with closing(Place(DuckdbTarget(tmp_path / "shop.duckdb"), open_objects(spec))) as place:
        batch = place.batch(0, [("c", "a", 1), ("c", "b", None)])

        place.open().load(batch.table, [batch], {1: FIRST})

        assert place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [("a", 1), ("b", None)]


def test_a_fit_store_is_told_to_be_and_nothing_is_left_in_it(spec: ObjectsSpec) -> None:
    objects = open_objects(spec)

    assert probe_objects(objects, "shop") == "can be written, read, listed and deleted from"
    assert objects.list("") == []


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ({"url": "s3://nosuch/x"}, "NoSuchBucket", "create the bucket"),
        ({"secret_access_key": "wrong"}, "SignatureDoesNotMatch", "these credentials are not the store's"),
        ({"access_key_id": "wrong"}, "InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_store_that_refuses_says_why_for_whatever_is_asked(
    spec: ObjectsSpec, change: dict[str, str], said: str, hint: str
) -> None:
    objects = open_objects(replace(spec, **change))  # type: ignore[arg-type]

    for error in errors_of(objects):
        assert isinstance(error, SinkError)
        assert said in error.message
        assert hint in error.hint


@pytest.mark.parametrize(
    ("url", "status", "body", "hint"),
    [
        ("s3://b/p", 400, "<Error><Code>ExpiredToken</Code></Error>", "have expired: renew AWS_ACCESS_KEY_ID"),
        ("s3://b/p", 403, "<Error><Code>AccessDenied</Code></Error>", "what they are allowed to do there"),
        ("s3://b/p", 507, "<Error><Code>QuotaExceeded</Code></Error>", "have the quota raised"),
        ("az://c/p", 403, "<Error><Code>AuthenticationFailed</Code></Error>", "check AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://c/p", 404, "<Error><Code>ContainerNotFound</Code></Error>", "create the bucket (the container)"),
        ("gs://b/p", 403, "<Error><Code>AccessDenied</Code></Error>", "check GOOGLE_APPLICATION_CREDENTIALS"),
        ("gs://b/p", 404, "<Error><Code>NoSuchBucket</Code></Error>", "create the bucket"),
    ],
)
def test_what_each_kind_of_store_refuses_comes_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, url: str, status: int, body: str, hint: str
) -> None:
    """The answers are those that the stores' documentation lists; no cloud is asked."""
    set_keys(monkeypatch)
    keys = KEYS if url.startswith("s3:") else {}

    with answering(status, body) as endpoint, pytest.raises(SinkError) as raised:
        open_objects(ObjectsSpec(url, endpoint, **keys, timeout_seconds=2.0)).put("x", b"1")

    assert hint in raised.value.hint
    assert f"cannot write x at {url}" in raised.value.message


@pytest.mark.parametrize("url", ["s3://b/p", "az://c/p", "gs://b/p"])
def test_a_store_that_is_away_is_worth_another_try(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    set_keys(monkeypatch)
    keys = KEYS if url.startswith("s3:") else {}

    objects = open_objects(ObjectsSpec(url, f"http://{LOOPBACK}:{free_port()}", **keys, timeout_seconds=2.0))

    with pytest.raises(UnavailableError, match="cannot write x at"):
        objects.put("x", b"1")


def test_an_azure_store_without_an_account_says_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)

    with pytest.raises(SinkError) as raised:
        open_objects(ObjectsSpec("az://container/prefix"))

    assert "check AZURE_STORAGE_ACCOUNT_NAME" in raised.value.hint


def test_a_store_that_shows_something_else_is_not_fit() -> None:
    with answering(200, "not what was written") as endpoint:
        objects = open_objects(ObjectsSpec("s3://b/p", endpoint, **KEYS, timeout_seconds=2.0))
        with pytest.raises(UnfitServerError, match="is read back as something else"):
            probe_objects(objects, "shop")


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put keys of Azure and Google into the environment; such a service account asks Google for no token."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    account = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))


def errors_of(objects: Objects) -> list[PenstockError]:
    """What writing, reading, listing and a probe raise."""
    found: list[PenstockError] = []
    for ask in (
        lambda: objects.put("x", b"1"),
        lambda: objects.get("x"),
        lambda: objects.list("x"),
        lambda: probe_objects(objects, "shop"),
    ):
        with pytest.raises(PenstockError) as raised:
            ask()
        found.append(raised.value)
    return found
