"""A client's side of a session: start-up, TLS, and messages in and out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.wire import (
    GSS_REQUEST,
    PROTOCOL,
    SSL_REQUEST,
    Message,
    RedshiftError,
    read_message,
    read_startup,
)

if TYPE_CHECKING:
    import ssl

_STARTUP_SECONDS = 30.0
_BUFFERED_BYTES = 1 << 16


class Client:
    """A connection from a client. What is written waits until `flush`, or until it is much."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wrap the two halves of an accepted connection."""
        self._reader = reader
        self._writer = writer
        self._waiting = bytearray()

    async def start(self, context: ssl.SSLContext) -> tuple[int, bytes]:
        """The first packet that is no wish for encryption: its code and body. TLS begins here where it is wished."""
        async with asyncio.timeout(_STARTUP_SECONDS):
            while True:
                code, body = await read_startup(self._reader)
                if code == SSL_REQUEST:
                    self._writer.write(b"S")
                    await self._writer.drain()
                    await self._writer.start_tls(context)
                elif code == GSS_REQUEST:
                    self._writer.write(b"N")
                    await self._writer.drain()
                else:
                    return code, body

    async def read(self) -> Message | None:
        """The next message, None when the client has gone or says that it goes."""
        try:
            message = await read_message(self._reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return None if message.kind == b"X" else message

    def tell(self, message: Message) -> None:
        """Queue a message."""
        self._waiting += message.pack()

    def tell_raw(self, content: bytes) -> None:
        """Queue a packed message."""
        self._waiting += content

    async def flush(self, *, only_if_much: bool = False) -> None:
        """Send what is queued."""
        if only_if_much and len(self._waiting) < _BUFFERED_BYTES:
            return
        content, self._waiting = bytes(self._waiting), bytearray()
        self._writer.write(content)
        await self._writer.drain()

    async def close(self, last: RedshiftError | None = None) -> None:
        """Send what is queued and a last error, and end the connection."""
        if last is not None:
            self.tell_raw(last.pack())
        try:
            await self.flush()
        except ConnectionError:
            pass
        finally:
            self._writer.close()


def check_protocol(code: int) -> None:
    """Raise RedshiftError for a start-up packet of another protocol than 3.0."""
    if code != PROTOCOL:
        message = f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0"
        raise refuse(message, sqlstate="08P01", fatal=True)
