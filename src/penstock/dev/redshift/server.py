"""The stand-in's process: it accepts clients, lets PostgreSQL judge their logins, and starts their sessions.

    python -m penstock.dev.redshift.server SETTINGS.json

Source: PostgreSQL documentation, "Message Flow: Start-up" and "SASL Authentication";
Amazon Redshift Management Guide, "Configuring security options for connections".
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import uvloop

from penstock.dev.redshift.backend import Backend, cancel
from penstock.dev.redshift.client import Client, check_protocol
from penstock.dev.redshift.cluster import Cluster, read_types
from penstock.dev.redshift.control import PAUSED, STATES, read_fault
from penstock.dev.redshift.errors import translate
from penstock.dev.redshift.session import Login, Session, serve_until_gone
from penstock.dev.redshift.wire import (
    CANCEL_REQUEST,
    Message,
    RedshiftError,
    pack_parameter,
    pack_startup,
    parse_fields,
    parse_startup,
)

_SERVER_VERSION = "8.0.2"
# What it says to clients that ask for more than text: that it has the oldest protocol, as old clusters do.
_SERVER_PROTOCOL_VERSION = "0"
_PASSED_ON = ("user", "database", "application_name", "client_encoding", "options", "datestyle", "timezone")
_SASL = 10
_ANSWERED = frozenset({3, 5, 10, 11})


@dataclass(frozen=True, slots=True)
class Door:
    """Where clients come in."""

    cluster: Cluster
    context: ssl.SSLContext

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from its first packet to its end."""
        client = Client(reader, writer)
        try:
            code, body = await client.start(self.context)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            writer.close()
            return
        if code == CANCEL_REQUEST:
            await cancel(self.cluster.host, self.cluster.port, body)
            writer.close()
            return
        try:
            check_protocol(code)
            self._check_awake()
            login, backend = await self._log_in(client, parse_startup(body))
        except RedshiftError as error:
            await client.close(error)
            return
        except (asyncio.IncompleteReadError, ConnectionError):
            await client.close()
            return
        await serve_until_gone(Session(client, backend, self.cluster, login), client, backend)

    def _check_awake(self) -> None:
        fault = read_fault(self.cluster.home)
        if fault is not None and fault.state == PAUSED:
            raise STATES[PAUSED]

    async def _log_in(self, client: Client, parameters: dict[str, str]) -> tuple[Login, Backend]:
        """Carry PostgreSQL's questions and the client's answers until one is content."""
        passed = {name: parameters[name] for name in _PASSED_ON if name in parameters}
        backend = Backend(*await asyncio.open_connection(self.cluster.host, self.cluster.port))
        await backend.send_raw(pack_startup(passed))
        redshift_driver = "client_protocol_version" in parameters
        while (message := await backend.read_any()).kind != b"Z":
            match message.kind:
                case b"R":
                    await self._authenticate(client, backend, message, redshift_driver=redshift_driver)
                case b"E":
                    backend.close()
                    error = translate(parse_fields(message.body))
                    error.fatal = True
                    raise error
                case b"S" if message.body.startswith(b"server_version\0"):
                    client.tell_raw(pack_parameter("server_version", _SERVER_VERSION))
                case _:
                    client.tell(message)
        if redshift_driver:
            client.tell_raw(pack_parameter("server_protocol_version", _SERVER_PROTOCOL_VERSION))
        client.tell(message)
        await client.flush()
        user = parameters.get("user", "")
        return Login(user, parameters.get("database", user)), backend

    async def _authenticate(self, client: Client, backend: Backend, message: Message, *, redshift_driver: bool) -> None:
        (kind,) = struct.unpack_from("!I", message.body)
        if kind == _SASL and redshift_driver:
            # redshift_connector takes the list's own end for a further mechanism.
            message = Message(b"R", message.body.removesuffix(b"\0"))
        client.tell(message)
        if kind in _ANSWERED:
            await client.flush()
            answer = await client.read()
            if answer is None:
                backend.close()
                gone = "the client went while it logged in"
                raise ConnectionError(gone)
            await backend.send(answer)


async def serve(settings: Path) -> None:
    """Listen and serve until this process ends."""
    told = json.loads(await asyncio.to_thread(settings.read_text))
    home, backend = Path(told["home"]), told["backend"]
    cluster = Cluster(home, **backend)
    types = await asyncio.to_thread(read_types, cluster.login("redshift_template"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "certificate.pem", home / "key.pem")
    door = Door(Cluster(home, **backend, types=types), context)
    server = await asyncio.start_server(door.enter, *told["listen"], limit=1 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
