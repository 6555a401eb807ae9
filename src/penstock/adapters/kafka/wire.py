"""Connections to Kafka brokers on which a producer in transactions sends its requests, one behind the other."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException
from scramp import ScramClient, ScramException

from penstock.core.kafka import requests
from penstock.core.kafka.requests import Answer, Api, Broker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RECEIVE_BYTES: Final = 1 << 16
_ANSWER_BYTES_MAX: Final = 64 << 20
_SIZE_BYTES: Final = 4
_PORT: Final = 9092
_QUICK_SECONDS: Final = 10.0
_PLAIN: Final = "PLAIN"


class Wire:
    """A connection to one broker, logged in. Requests may be sent before the answers to earlier ones are read.

    Whatever goes wrong with it is an OSError, and ends it.
    """

    def __init__(self, broker: Broker, login: Mapping[str, str], timeout_seconds: float) -> None:
        """Connect and log in, each step in _QUICK_SECONDS; later answers may take `timeout_seconds`.

        Raises OSError where the broker cannot be reached, KafkaException where it refuses the login.
        """
        self.broker = broker
        self._received = bytearray()
        self._correlation = 0
        self._waiting: deque[int] = deque()
        self._socket = _connect(broker)
        self._timeout_seconds = timeout_seconds
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            security = login.get("security.protocol", "PLAINTEXT")
            if security.endswith("SSL"):
                self._encrypt(login.get("ssl.ca.location"))
            if security.startswith("SASL"):
                self._log_in(login["sasl.mechanism"], login["sasl.username"], login["sasl.password"])
            self._socket.settimeout(timeout_seconds)
        except BaseException:
            self.close()
            raise

    def ask(self, api: Api, body: bytes) -> Answer:
        """Send a request and wait for its answer. Raises OSError where answers to others have not been read."""
        if self._waiting:
            message = f"{self.broker.host}:{self.broker.port} has not answered what it was asked before"
            raise ConnectionError(message)
        self.send(api, body)
        return self.receive()

    def ask_quickly(self, api: Api, body: bytes) -> Answer:
        """Ask what any broker answers at once, and another one can be asked where this one does not."""
        self._socket.settimeout(_QUICK_SECONDS)
        answer = self.ask(api, body)
        self._socket.settimeout(self._timeout_seconds)
        return answer

    def send(self, api: Api, body: bytes) -> None:
        """Send a request."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._waiting.append(self._correlation)
        try:
            self._socket.sendall(requests.render_request(api, self._correlation, body))
        except BaseException:
            # Nobody knows how much of it went out.
            self.close()
            raise

    def receive(self) -> Answer:
        """Wait for the answer to the oldest request that has none."""
        try:
            return self._answer(self._waiting.popleft())
        except BaseException:
            self.close()
            raise

    def _answer(self, correlation: int) -> Answer:
        size = int.from_bytes(self._take(_SIZE_BYTES), "big")
        if not _SIZE_BYTES <= size <= _ANSWER_BYTES_MAX:
            message = f"{self.broker.host}:{self.broker.port} does not answer as a Kafka broker"
            raise ConnectionError(message)
        answer = Answer(self._take(size))
        if answer.integer(4) != correlation:
            message = f"{self.broker.host}:{self.broker.port} answered another request"
            raise ConnectionError(message)
        return answer

    def close(self) -> None:
        """Drop the connection."""
        self._socket.close()

    def __del__(self) -> None:
        """Drop the connection of a producer that nobody closed, as Kafka's other clients do."""
        with suppress(AttributeError):
            self.close()

    def _take(self, octets: int) -> bytes:
        while len(self._received) < octets:
            more = self._socket.recv(max(_RECEIVE_BYTES, octets - len(self._received)))
            if not more:
                message = f"{self.broker.host}:{self.broker.port} closed the connection"
                raise ConnectionResetError(message)
            self._received += more
        taken = bytes(self._received[:octets])
        del self._received[:octets]
        return taken

    def _encrypt(self, ca_file: str | None) -> None:
        context = ssl.create_default_context(cafile=ca_file)
        # As Kafka's other clients: Python 3.13 and later refuse authorities that they take.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=self.broker.host)
        except ssl.SSLCertVerificationError as error:
            raise _refused(KafkaError._SSL, str(error)) from error  # noqa: SLF001 - librdkafka's code for it

    def _log_in(self, mechanism: str, user: str, password: str) -> None:
        """Log in by SASL (KIP-43, KIP-84): PLAIN (RFC 4616), or SCRAM (RFC 5802)."""
        code, known = requests.read_mechanism(self.ask(requests.SASL_HANDSHAKE, requests.ask_mechanism(mechanism)))
        if code:
            raise _refused(code, f"the broker logs in by {', '.join(known)}, and not by {mechanism}")
        if mechanism == _PLAIN:
            self._authenticate(f"\0{user}\0{password}".encode())
            return
        client = ScramClient([mechanism], user, password)
        try:
            client.set_server_first(self._authenticate(client.get_client_first().encode()).decode())
            client.set_server_final(self._authenticate(client.get_client_final().encode()).decode())
        except ScramException as error:
            raise _refused(KafkaError.SASL_AUTHENTICATION_FAILED, str(error)) from error

    def _authenticate(self, token: bytes) -> bytes:
        answer = self.ask(requests.SASL_AUTHENTICATE, requests.authenticate(token))
        code, said, step = requests.read_authenticated(answer)
        if code:
            raise _refused(code, said)
        return step


def _connect(broker: Broker) -> socket.socket:
    """Connect to the first of a broker's addresses that answers; of version 4, as librdkafka is told (cluster.py)."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        broker.host, broker.port, socket.AF_INET, socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_QUICK_SECONDS)
            connection.connect(address)
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return connection
    raise failure or ConnectionError(broker.host)


def _refused(code: int, reason: str) -> KafkaException:
    return KafkaException(KafkaError(code, reason))


def read_brokers(bootstrap_servers: str) -> Sequence[Broker]:
    """Read "host:port,host:port"."""
    found = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        found.append(Broker(host, int(port)) if host else Broker(port, _PORT))
    return found
