"""A MySQL or MariaDB server's binlog, followed over one connection."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pymysql

from penstock.adapters.mysql.binlog_errors import explain_dump
from penstock.adapters.mysql.connection import MysqlServer, connect, explain
from penstock.adapters.mysql.continuity import Continuity, require_known
from penstock.core.errors import CorruptLogError, PenstockError, UnavailableError
from penstock.core.mysql.events.packets import PACKET_BYTES_MAX, Events, PacketSplitter
from penstock.core.mysql.log.scan import PREPARED_BYTES_MAX, EventScanner, Grouping
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.positions import BinlogPosition, Position
    from penstock.core.tables import TableId

_COM_BINLOG_DUMP: Final = 0x12
_NON_BLOCKING: Final = 1
_FIRST_OFFSET: Final = 4
_OFFSET_MAX: Final = 0xFFFF_FFFF
_HEARTBEAT_NANOSECONDS: Final = 1_000_000_000
_SILENCE_SECONDS_MAX: Final = 30.0
_CONNECT_SECONDS: Final = 10.0
_BUFFER_BYTES: Final = 8 << 20
_BULK_BYTES: Final = 64 << 10
_BULK_WAIT_MILLISECONDS: Final = 2
_RECEIVE_BUFFER_BYTES: Final = 4 << 20


def open_binlog(
    server: MysqlServer,
    position: BinlogPosition,
    server_id: int,
    wanted: Callable[[TableId], bool],
    stop: Stop,
    prepared_bytes_max: int = PREPARED_BYTES_MAX,
) -> BinlogStream:
    """Ask `server` for its binlog from `position`, as the replica `server_id`, which nobody else may be.

    `wanted` says of which tables we want rows, and `prepared_bytes_max` how many
    bytes of rows XA transactions may have; see EventScanner. Raises
    UnavailableError when the server does not answer and UnfitServerError when it
    refuses us; LogError when the log is not the one in which the position was
    taken, PositionError for GTIDs that cannot be read. What else is wrong with
    the position shows in the first `read`.
    """
    connection = connect(server, _CONNECT_SECONDS)
    try:
        require_known(connection, position)
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
        stream_socket = _socket_of(connection)
        _tune(stream_socket)
        stream_socket.sendall(_dump_command(position, server_id, stop))
        stream_socket.settimeout(0)
    except pymysql.err.MySQLError as error:
        connection.close()
        raise explain(error, server) from error
    except OSError as error:
        connection.close()
        raise _lost(server, str(error)) from error
    except PenstockError:
        if connection.open:
            connection.close()
        raise
    one_file = stop is Stop.END_OF_FILE
    grouping = Grouping(few=True)
    scanner = EventScanner(
        position, wanted, one_file=one_file, prepared_bytes_max=prepared_bytes_max, grouping=grouping
    )
    return BinlogStream(server, position, scanner, stop, connection)


class BinlogStream:
    """A LogStream over one connection. Not for several threads."""

    def __init__(
        self,
        server: MysqlServer,
        position: BinlogPosition,
        scanner: EventScanner,
        stop: Stop,
        connection: pymysql.Connection,
    ) -> None:
        """Follow `connection`, on which the server has been asked for its binlog, and read that with `scanner`."""
        self._server = server
        self._position = position
        self._stop = stop
        self._connection = connection
        self._socket = _socket_of(connection)
        self._scanner = scanner
        self._continuity = Continuity(server, position)
        self._packets = PacketSplitter()
        self._events: deque[Events] = deque()
        self._pieces: Iterator[list[LogItem]] = iter(())
        self._buffer = bytearray(_BUFFER_BYTES)
        self._begin = self._end = 0
        self._heard = time.monotonic()
        self._closed = False
        self._at_end = False

    def read(self, wait_seconds: float) -> Sequence[LogItem]:
        """Return what has arrived, as `ports.log.LogStream` says; at the end of the log or file, nothing more."""
        deadline = time.monotonic() + wait_seconds
        while not self._at_end:
            items = self._next_items()
            if items or self._at_end:
                return items
            if not self._receive(deadline):
                break
        return []

    def confirm(self, position: Position) -> None:
        """See `ports.log.LogStream`: a server keeps its binlog by its own rules."""

    def at_end(self) -> bool:
        """Whether everything up to the stop has been returned by `read`."""
        return self._at_end

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        if self._connection.open:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    def _next_items(self) -> list[LogItem]:
        """Scan what was received. Everything before an error is handed out before the error is raised."""
        if not self._events and self._begin < self._end:
            try:
                events, self._begin = self._packets.split(self._buffer, self._begin, self._end)
            except MalformedError as error:
                raise _garbled(self._server, str(error)) from error
            self._events.extend(events)
        items = next(self._pieces, [])
        while self._events and not items:
            self._pieces = self._scanner.pieces(*self._events.popleft())
            items = next(self._pieces, [])
        if not items:
            self._scanner.require_readable()
            items = self._server_stopped()
        self._continuity.check(items)
        self._at_end = self._at_end or self._scanner.file_ended
        return items

    def _server_stopped(self) -> list[LogItem]:
        if self._packets.error is not None:
            raise explain_dump(self._packets.error, self._server, self._position)
        if self._packets.ended:
            if self._stop is Stop.NEVER:
                raise _lost(self._server, "it ended the stream, as it does when it shuts down")
            self._at_end = True
            return self._scanner.advanced()
        return []

    def _receive(self, deadline: float) -> bool:
        """Wait until something comes, then take what is there, up to a buffer full; False if nothing came in time."""
        self._make_room()
        received = self._take()
        while not received:
            if self._closed:
                raise _lost(self._server, "it closed the connection")
            now = time.monotonic()
            if now - self._heard > _SILENCE_SECONDS_MAX:
                raise _lost(self._server, f"not even a heartbeat came for {_SILENCE_SECONDS_MAX:.0f} seconds")
            if now >= deadline or not self._readable(min(deadline - now, _SILENCE_SECONDS_MAX) * 1000):
                return False
            received = self._take()
        # Much at once says that more is on its way: fewer, larger batches decode several times as fast.
        while received > _BULK_BYTES and self._end < len(self._buffer) and self._readable(_BULK_WAIT_MILLISECONDS):
            received = self._take()
        return True

    def _make_room(self) -> None:
        """Move the unread rest to the front, and make the buffer larger when one packet fills it."""
        rest = self._end - self._begin
        self._buffer[:rest] = self._buffer[self._begin : self._end]
        self._begin, self._end = 0, rest
        if rest == len(self._buffer):
            self._buffer.extend(bytes(PACKET_BYTES_MAX))

    def _take(self) -> int:
        """Receive what there is without waiting; return how many bytes."""
        before, count = self._end, -1
        try:
            with memoryview(self._buffer) as view:
                while self._end < len(view):
                    count = self._socket.recv_into(view[self._end :])
                    if count == 0:
                        break
                    self._end += count
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            raise _lost(self._server, str(error)) from error
        if self._end > before:
            self._heard = time.monotonic()
        self._closed = count == 0
        return self._end - before

    def _readable(self, wait_milliseconds: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(wait_milliseconds))


# MySQL 8.4 calls these variables "source", everybody else "master"; a server ignores what it does not know.
_SESSION: Final = (
    "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32',"
    f" @master_heartbeat_period = {_HEARTBEAT_NANOSECONDS}, @source_heartbeat_period = {_HEARTBEAT_NANOSECONDS},"
    " @mariadb_slave_capability = 4"
)


def _socket_of(connection: pymysql.Connection) -> socket.socket:
    """Return the socket behind a connection: pymysql has no public way to speak the replication protocol."""
    found: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def _tune(stream_socket: socket.socket) -> None:
    """Notice a dead peer, and let the kernel collect while we decode."""
    stream_socket.settimeout(_CONNECT_SECONDS)
    stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    stream_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    stream_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _dump_command(position: BinlogPosition, server_id: int, stop: Stop) -> bytes:
    """COM_BINLOG_DUMP as a packet. It has 32 bits for the offset: beyond, ask for the file and pass over its front."""
    file, first = position.read_from
    offset = max(first, _FIRST_OFFSET)
    if offset > _OFFSET_MAX:
        offset = _FIRST_OFFSET
    flags = 0 if stop is Stop.NEVER else _NON_BLOCKING
    payload = struct.pack("<BIHI", _COM_BINLOG_DUMP, offset, flags, server_id) + file.encode()
    return struct.pack("<I", len(payload)) + payload


def _lost(server: MysqlServer, why: str) -> UnavailableError:
    message = f"the binlog stream from {server} broke: {why}"
    return UnavailableError(message, "check that the server runs and can be reached")


def _garbled(server: MysqlServer, why: str) -> CorruptLogError:
    message = f"{server} sent {why} in its binlog stream"
    return CorruptLogError(message, "check the network between Penstock and the server, and try again")
