"""Sends requests over connections that stay open, each as soon as the answer before it is there.

    python -m penstock.bench.programs.http_load PORT CONNECTIONS SECONDS FILE

FILE holds JSON: a list of [method, path, body], taken in turn by whoever is free. Marks: `begin`, `end`, `answers`,
`failed` (answers that are not 200), `p50` and `p99` (seconds from request to answer).

It must cost much less than what it measures: nothing of an answer is looked at but its status and its length.
Source: RFC 9112, sections 4 and 6.3.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.marks import write_mark
from penstock.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_OK = b"HTTP/1.1 200"
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


def main(arguments: list[str]) -> None:
    """Send for as long as asked, and say how it went."""
    port, connections, seconds, file = arguments
    requests = [render_request(*each) for each in json.loads(Path(file).read_text(encoding="utf-8"))]
    asyncio.run(send_all(int(port), int(connections), float(seconds), requests))


def render_request(method: str, path: str, body: str) -> bytes:
    """Return the bytes of a request."""
    content = body.encode()
    head = [f"{method} {path} HTTP/1.1", f"host: {LOOPBACK}", f"accept: {_MEDIA_TYPE}"]
    if content:
        head += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*head, "", ""]).encode() + content


async def send_all(port: int, connections: int, seconds: float, requests: Sequence[bytes]) -> None:
    """Send `requests`, round and round, and write the marks."""
    loop = asyncio.get_running_loop()
    following, waits, failed = cycle(requests), list[float](), list[bytes]()
    opened = [
        (await loop.create_connection(lambda: Connection(following, waits, failed), LOOPBACK, port))[1]
        for _ in range(connections)
    ]
    # A collection of garbage would stop every connection at once.
    gc.disable()
    write_mark("begin")
    for connection in opened:
        connection.send()
    await asyncio.sleep(seconds)
    write_mark("end")
    answers = len(waits)
    for connection in opened:
        connection.close()
    waits.sort()
    write_mark("failed", len(failed))
    write_mark("p50", percentile(waits, 0.5))
    write_mark("p99", percentile(waits, 0.99))
    write_mark("answers", answers)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the least of the numbers that at most `share` of them are above by none; 0 of none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, following: Iterator[bytes], waits: list[float], failed: list[bytes]) -> None:
        """Take requests from `following`; note how long each answer took, and those that are not 200."""
        self._following = following
        self._waits = waits
        self._failed = failed
        self._received = b""
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - that of a stream always is
        self._transport = transport

    def send(self) -> None:
        """Send the next request."""
        if self._transport is not None:
            self._sent = time.monotonic()
            self._transport.write(next(self._following))

    def close(self) -> None:
        """Send nothing any more."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def data_received(self, data: bytes) -> None:
        """Go on once the answer is whole."""
        received = self._received + data if self._received else data
        head = received.find(_HEAD_END)
        if head < 0 or len(received) < head + len(_HEAD_END) + _length(received, head):
            self._received = received
            return
        self._received = b""
        self._waits.append(time.monotonic() - self._sent)
        if not received.startswith(_OK):
            self._failed.append(received)
        self.send()


def _length(received: bytes, head: int) -> int:
    at = received.find(_LENGTH, 0, head)
    if at < 0:
        return 0
    begin = at + len(_LENGTH)
    return int(received[begin : received.index(b"\r", begin)])


if __name__ == "__main__":
    main(sys.argv[1:])
