"""A TCP proxy that misbehaves when it is told to: it stands between any two parts and breaks what is between them."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from penstock.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence
    from types import TracebackType

_CHUNK_BYTES = 65_536
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards connections to `target_port` on loopback, from `port`, while a `with` block lasts.

    Every method may be called from any thread, and holds for connections that
    are open and for those to come.
    """

    def __init__(self, name: str, target_port: int, port: int = 0) -> None:
        """Listen on `port`, a free one for 0. `name` says what is behind it."""
        self.name = name
        self._target_port = target_port
        self._listener = socket.create_server((LOOPBACK, port))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy of {name}", daemon=True)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay_seconds = 0.0
        self._refusing = False
        self._answers_to_cut = 0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Begin to forward."""
        self._thread.start()
        self._call(self._serve())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset every connection there is, in the middle of whatever it says; new ones are welcome."""
        self._call(self._reset())

    def refuse(self) -> None:
        """Reset every connection there is and every new one, until `heal`."""
        self._refusing = True
        self.cut()

    def cut_answers(self, count: int) -> None:
        """Reset the connection at each of the next `count` answers of a server, of which nothing arrives."""
        self._answers_to_cut = count

    def half_close(self) -> None:
        """End what servers say on every connection there is; what clients say still arrives."""
        self._call(self._end_answers())

    def stall(self) -> None:
        """Deliver nothing, in neither direction, and tell nobody, until `heal`: as a network that drops packets."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def delay(self, seconds: float) -> None:
        """Deliver everything `seconds` late, until `heal`."""
        self._delay_seconds = seconds

    def heal(self) -> None:
        """Forward as a wire does. What was held back goes on its way."""
        self._refusing = False
        self._delay_seconds = 0.0
        self._loop.call_soon_threadsafe(self._flowing.set)

    def _call(self, coroutine: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._connect, sock=self._listener)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _abort(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            _abort(writer)
            return
        pair = (writer, far_writer)
        self._pairs.add(pair)
        for task in (
            self._loop.create_task(self._forward(reader, far_writer)),
            self._loop.create_task(self._forward(far_reader, writer, cut=pair)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: Sequence[asyncio.StreamWriter] = ()
    ) -> None:
        """Deliver what `reader` says; `cut` is what to reset where that is an answer to be cut off."""
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                if cut and self._answers_to_cut:
                    self._answers_to_cut -= 1
                    _abort_all(cut)
                    break
                await self._flowing.wait()
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                writer.write(chunk)
                await writer.drain()
            await self._flowing.wait()
            writer.write_eof()
        except (OSError, RuntimeError):
            # Who was killed with something unread resets the connection: the other end must hear of it.
            await self._flowing.wait()
            _abort(writer)
        self._drop_closed()

    def _drop_closed(self) -> None:
        self._pairs = {pair for pair in self._pairs if not all(writer.is_closing() for writer in pair)}

    async def _reset(self) -> None:
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _abort_all(pair)

    async def _end_answers(self) -> None:
        for near, _ in self._pairs:
            with suppress(OSError, RuntimeError):
                near.write_eof()

    async def _close(self) -> None:
        self._server.close()
        self._flowing.set()
        await self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _abort_all(writers: Iterable[asyncio.StreamWriter]) -> None:
    for writer in writers:
        _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset (SO_LINGER with no time), not with an orderly end."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    writer.transport.abort()
