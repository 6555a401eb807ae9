"""Crowds of writers: whose turn it is, and what is done before a transaction holds up the others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.unit.schematizer.served import HastyProtocol

from penstock.core.avro_types import parse_avro
from penstock.core.compatibility import reading_problems
from penstock.schematizer.formats.comparisons import compare_once
from penstock.schematizer.http.turns import Turns
from penstock.schematizer.registry import levels

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send


class Slow:
    """An application that takes its time, and says who was in it."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most: dict[str, int] = {}
        self.order: list[str] = []

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        path = str(scope["path"])
        self.inside.append(path)
        self.order.append(path)
        for name in (path, "all"):
            now = len(self.inside) if name == "all" else self.inside.count(path)
            self.most[name] = max(self.most.get(name, 0), now)
        await asyncio.sleep(0.02)
        self.inside.remove(path)


async def nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def ask(app: Turns, method: str, path: str) -> list[Message]:
    said: list[Message] = []

    async def send(message: Message) -> None:
        said.append(message)

    await app({"type": "http", "method": method, "path": path}, nothing, send)
    return said


def test_a_subject_has_one_writer_at_a_time_in_the_order_of_arrival_and_readers_do_not_wait() -> None:
    slow = Slow()

    async def work() -> None:
        app = Turns(slow, at_once=3)
        writing = [ask(app, "POST", f"/subjects/s{number % 5}/versions") for number in range(20)]
        reading = [ask(app, "GET", "/subjects/s0/versions") for _ in range(20)]
        reading += [ask(app, "POST", "/subjects/s0"), ask(app, "POST", "/compatibility/subjects/s0/versions")]
        await asyncio.gather(*writing, *reading)

    asyncio.run(work())

    writers = [path for path in slow.order if path.endswith("/versions")]
    assert all(slow.most[f"/subjects/s{number}/versions"] == 1 for number in range(1, 5))
    assert len(writers) == 20 + 20 + 1
    assert slow.most["all"] >= 20
    assert slow.order[:3] == ["/subjects/s0/versions", "/subjects/s1/versions", "/subjects/s2/versions"]


def test_who_waits_too_long_is_told_when_to_come_again() -> None:
    async def work() -> list[list[Message]]:
        app = Turns(Slow(), at_once=1, wait_seconds=0.01)
        return await asyncio.gather(*(ask(app, "DELETE", "/subjects/s") for _ in range(3)))

    first, *others = asyncio.run(work())

    assert first == []
    for start, body in others:
        assert start["status"] == 503
        assert dict(start["headers"])[b"retry-after"] == b"5"
        assert "its turn within" in json.loads(body["body"])["message"]


def test_a_schema_that_does_not_fit_is_refused_while_another_writes(registry: httpx.Client, tmp_path: Path) -> None:
    registry.post("/subjects/s-value/versions", json={"schema": '"long"'}).raise_for_status()
    with sqlite3.connect(tmp_path / "schematizer.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()

        answer = registry.post("/subjects/s-value/versions", json={"schema": '"string"'})

        # SQLite would have waited for 30 seconds.
        assert time.monotonic() - begun < 15
        assert (answer.status_code, answer.json()["code"]) == (409, "incompatible_schema")
        other.execute("ROLLBACK")


def test_a_registration_compares_once_before_its_transaction(
    registry: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [f"label_{number}" for number in range(6_000)]
    bodies = [
        {"schema": json.dumps({"type": "enum", "name": "Counted", "symbols": labels[:count]})}
        for count in (5_999, 6_000)
    ]
    registry.post("/subjects/s-value/versions", json=bodies[0]).raise_for_status()
    compared = []
    before = reading_problems

    def counted(*given: object) -> tuple[str, ...]:
        compared.append(given)
        return before(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(levels, "reading_problems", counted)

    answer = registry.post("/subjects/s-value/versions", json=bodies[1])

    assert answer.status_code == 200
    assert len(compared) == 1


def test_what_was_compared_is_known_by_which_and_how() -> None:
    one, other = parse_avro('"int"'), parse_avro('"long"')

    assert compare_once(lambda *_: ("a",), one, other) == ("a",)
    assert compare_once(lambda *_: ("b",), one, other) == ("a",)
    assert compare_once(lambda *_: ("b",), other, one) == ("b",)
    assert compare_once(lambda *_: ("c",), one, other, "exact") == ("c",)


def test_a_crowd_of_a_hundred_is_answered_or_told_when_to_come_again(registry: httpx.Client) -> None:
    async def work() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=registry.base_url, timeout=60, limits=limits) as client:
            subjects = ["same" if number % 2 else f"other{number}" for number in range(100)]
            texts = [json.dumps({"type": "array", "items": "int", "number": number}) for number in range(100)]
            posts = [
                client.post(f"/subjects/{subject}-value/versions", json={"schema": text})
                for subject, text in zip(subjects, texts, strict=True)
            ]
            return await asyncio.gather(*posts)

    # So many share this process with the server: heads of requests come late, and are not to be cut off for it.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HastyProtocol, "head_seconds", 60.0)
        answers = asyncio.run(work())

    late = [answer for answer in answers if answer.status_code != 200]
    assert len(late) < 100
    for answer in late:
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert int(answer.headers["Retry-After"]) >= 1
        assert "QueuePool" not in answer.text
    versions = registry.get("/subjects/same-value/versions").json()
    assert versions == list(range(1, len(versions) + 1))
