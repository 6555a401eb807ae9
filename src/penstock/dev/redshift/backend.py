"""One session's connection to its PostgreSQL. Whoever asks reads the answer to its end before anything else."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import translate
from penstock.dev.redshift.wire import CANCEL_REQUEST, Message, RedshiftError, parse_fields, read_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_PREFIX = b"standin"
_POISON = "the stand-in refused the statement before"
_ASYNCHRONOUS = frozenset({b"N", b"A", b"S"})


class Backend:
    """A connection after its start-up. `status` is that of the last ReadyForQuery: b"I", b"T" or b"E".

    `failed` says that there was an error since: PostgreSQL skips what it is sent up to a Sync.

    `forward` gets what may come at any time: notices and parameters.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wrap the two halves of a connection on which PostgreSQL listens."""
        self._reader = reader
        self._writer = writer
        self.status = b"I"
        self.failed = False
        self._number = 0
        self.forward: Callable[[Message], None] = lambda _message: None

    async def read(self) -> Message:
        """The next message that answers something; ConnectionError where PostgreSQL has gone."""
        while True:
            message = await self.read_any()
            if message.kind not in _ASYNCHRONOUS:
                return message
            self.forward(message)

    async def read_any(self) -> Message:
        """The next message, whatever it is."""
        message = await read_message(self._reader)
        if message.kind == b"Z":
            self.status, self.failed = message.body, False
        elif message.kind == b"E":
            self.failed = True
        return message

    async def send(self, *messages: Message) -> None:
        """Write messages."""
        for message in messages:
            self._writer.write(message.pack())
        await self._writer.drain()

    async def send_raw(self, content: bytes) -> None:
        """Write what is no message: the start-up packet."""
        self._writer.write(content)
        await self._writer.drain()

    async def ask(self, message: Message, last: frozenset[bytes], tell: Callable[[Message], None]) -> bool:
        """Send one message of the extended protocol and tell its answers up to one of `last`; False if it failed.

        After a failure PostgreSQL skips everything up to a Sync.
        """
        await self.send(message, Message(b"H"))
        while True:
            answer = await self.read()
            tell(answer)
            if answer.kind in last:
                return True
            if answer.kind == b"E":
                return False

    async def simple(self, sql: str, tell: Callable[[Message], None]) -> bool:
        """Run a simple query, telling its answers without the ReadyForQuery; False if one was an error."""
        await self.send(Message(b"Q", sql.encode() + b"\0"))
        whole = True
        while (answer := await self.read()).kind != b"Z":
            whole &= answer.kind != b"E"
            tell(answer)
        return whole

    async def sync(self) -> None:
        """Send a Sync and read up to its ReadyForQuery."""
        await self.send(Message(b"S"))
        while (await self.read()).kind != b"Z":
            pass

    async def rows(self, sql: str, *, sync: bool) -> list[list[str | None]]:
        """What a query of our own returns, as text. Without `sync`, inside whatever the client has begun.

        Raises RedshiftError.
        """
        name = self._fresh_name()
        await self.send(*_run(name, sql), *_close(name), Message(b"H"))
        found: list[list[str | None]] = []
        error: RedshiftError | None = None
        closed = 0
        while error is None:
            answer = await self.read()
            match answer.kind:
                case b"D":
                    found.append(_values(answer.body))
                case b"E":
                    error = translate(parse_fields(answer.body))
                case b"3":
                    closed += 1
                    if closed == len(_close(name)):
                        break
        await self._finish(sync=sync)
        if error is not None:
            raise error
        return found

    async def copy_in(self, sql: str, chunks: AsyncIterator[bytes], *, sync: bool) -> None:
        """Run COPY ... FROM STDIN with `chunks`. Returns only after PostgreSQL has said that all of it is in.

        Raises RedshiftError for what PostgreSQL refuses, and whatever `chunks` raises, after PostgreSQL has
        said that it dropped the rows.
        """
        name = self._fresh_name()
        await self.send(*_run(name, sql), Message(b"H"))
        answer = await self.read()
        while answer.kind not in {b"G", b"E"}:
            answer = await self.read()
        broken: Exception | None = None
        if answer.kind == b"G":
            answer, broken = await self._feed(chunks)
        failed = answer.kind == b"E"
        if not failed:
            for close in _close(name):
                await self.ask(close, frozenset({b"3"}), lambda _answer: None)
        await self._finish(sync=sync)
        if broken is not None:
            raise broken
        if failed:
            raise translate(parse_fields(answer.body))

    async def poison(self, *, sync: bool) -> None:
        """Make PostgreSQL fail unless it has, so that it knows, too, that the client's transaction has failed."""
        if self.failed:
            return
        await self.send(Message(b"P", b"\0" + _POISON.encode() + b"\0\0\0"), Message(b"H"))
        while (await self.read()).kind != b"E":
            pass
        await self._finish(sync=sync)

    def close(self) -> None:
        """End the connection; PostgreSQL rolls back."""
        self._writer.close()

    async def _feed(self, chunks: AsyncIterator[bytes]) -> tuple[Message, Exception | None]:
        """Send the rows; PostgreSQL's last word about them, and what broke on our side."""
        # It speaks up in the middle only to say that it failed: then the rest need not be sent.
        word = asyncio.ensure_future(self.read())
        broken: Exception | None = None
        try:
            async for chunk in chunks:
                await self.send(Message(b"d", chunk))
                if word.done():
                    break
            await self.send(Message(b"c"), Message(b"H"))
        except (ConnectionError, asyncio.IncompleteReadError):
            word.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, PostgreSQL must drop the rows first
            broken = error
            await self.send(Message(b"f", b"the files could not be read\0"), Message(b"H"))
        except BaseException:
            word.cancel()
            raise
        return await word, broken

    def _fresh_name(self) -> bytes:
        """A name for a statement and portal of our own. After a failure they stay, and are in nobody's way."""
        self._number += 1
        return _PREFIX + str(self._number).encode()

    async def _finish(self, *, sync: bool) -> None:
        if sync:
            await self.sync()


async def cancel(host: str, port: int, key: bytes) -> None:
    """Ask the PostgreSQL at that address to cancel what the connection with this key runs."""
    _, writer = await asyncio.open_connection(host, port)
    writer.write(struct.pack("!II", 8 + len(key), CANCEL_REQUEST) + key)
    await writer.drain()
    writer.close()


def _run(name: bytes, sql: str) -> tuple[Message, ...]:
    """Parse, bind and execute a statement of our own, beside the client's."""
    parse = Message(b"P", name + b"\0" + sql.encode() + b"\0\0\0")
    bind = Message(b"B", name + b"\0" + name + b"\0" + bytes(6))
    return parse, bind, Message(b"E", name + b"\0" + bytes(4))


def _close(name: bytes) -> tuple[Message, ...]:
    """Drop a portal and statement of ours."""
    return Message(b"C", b"P" + name + b"\0"), Message(b"C", b"S" + name + b"\0")


def _values(body: bytes) -> list[str | None]:
    """The fields of a DataRow in text format."""
    (count,) = struct.unpack_from("!H", body)
    at, found = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        found.append(None if length < 0 else body[at : at + length].decode())
        at += max(length, 0)
    return found
