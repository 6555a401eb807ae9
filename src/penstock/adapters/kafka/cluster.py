"""A Kafka cluster: where it is, how its topics are made, and what its errors mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.core.errors import STOP_ONE, DisplacedError, PenstockError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.core.topic_policy import TopicRule

REQUEST_TIMEOUT_SECONDS = 30.0
TRANSACTION_SECONDS = 60.0
"""How long brokers leave the transaction of a publication open that was killed, and that nobody takes over."""
UNDECIDED_SECONDS = TRANSACTION_SECONDS + 30.0
"""After how long it is no such transaction: brokers look for them every ten seconds."""

# Not INVALID_PRODUCER_ID_MAPPING: brokers forget who has published nothing for a week (transactional.id.expiration.ms).
# A new publisher asks whether there is a newer instance before it takes the link over.
_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own codes have an underscore; they are public constants
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_ENLARGE = "raise max.message.bytes of that topic, and start again: nothing is lost, and it goes on there"
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_REFUSED_FOR = {
    **dict.fromkeys(TOO_LARGE, _ENLARGE),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "raise transaction.max.timeout.ms of the brokers, or lower snapshot_commit_seconds of the source"
    ),
}
_REFUSED = frozenset(
    {
        *_REFUSED_FOR,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
    }
)
_SETTING_REFUSED = frozenset({KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION})
LARGEST_MESSAGE = "max.message.bytes"
_NOT_LET_IN = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - as above
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """Where the brokers are, and the shape of the topics we make.

    `partitions` holds for topics of tables; Penstock's own topics have one.
    The first of `rules` that matches the name of a table's topic says more of how it is made.
    `login` are librdkafka's options that log a client in.
    """

    bootstrap_servers: str
    partitions: int = 1
    replication: int = 1
    login: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    rules: tuple[TopicRule, ...] = ()

    @property
    def partitions_max(self) -> int:
        """How many partitions a topic of a table has at most: so many are read."""
        return max(self.partitions, *(rule.partitions or 0 for rule in self.rules), 0)

    def client_settings(self) -> dict[str, str | int | float | bool]:
        """Settings that every client of this cluster shares."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "penstock",
            "socket.keepalive.enable": True,
            "broker.address.family": "v4",
            "log_level": 2,
            **dict(self.login),
        }

    def java_settings(self) -> dict[str, str]:
        """The login for Spark's Kafka source, in the Java client's names, with Spark's prefix."""
        given = dict(self.login)
        settings = {}
        if "security.protocol" in given:
            settings["kafka.security.protocol"] = given["security.protocol"]
        if "ssl.ca.location" in given:
            settings["kafka.ssl.truststore.type"] = "PEM"
            settings["kafka.ssl.truststore.location"] = given["ssl.ca.location"]
        if "sasl.username" in given:
            module = "plain.PlainLoginModule" if given["sasl.mechanism"] == "PLAIN" else "scram.ScramLoginModule"
            user, password = (_quoted(given[f"sasl.{part}"]) for part in ("username", "password"))
            settings["kafka.sasl.mechanism"] = given["sasl.mechanism"]
            settings["kafka.sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required username={user} password={password};"
            )
        return settings


def _quoted(text: str) -> str:
    """Quote a value of a JAAS line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_fenced(error: KafkaException) -> bool:
    """Whether a broker takes us for an older instance."""
    return error.args[0].code() in _FENCED


def explain(error: KafkaException | KafkaError, doing: str) -> PenstockError:
    """Turn a Kafka error into ours: fenced, refused, or worth another try."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    code = cause.code()
    if code in _FENCED:
        return DisplacedError(
            f"Kafka refused access while {doing}: another producer has taken over",
            f"{STOP_ONE}; this one has published nothing since",
        )
    if code in _REFUSED:
        hint = _REFUSED_FOR.get(code, "check the topic's settings and what the pipeline may do with it")
        return PenstockError(f"Kafka refused {doing}: {cause.str()}", hint)
    hint = "check that the brokers run and can be reached"
    if code in _NOT_LET_IN:
        hint = "check user, password and mechanism of kafka.security"
    if code == KafkaError._SSL:  # noqa: SLF001 - as above
        hint = (
            "check ca_file of kafka.security, and that brokers have certificates for the addresses that they advertise"
        )
    return UnavailableError(f"Kafka failed {doing}: {cause.str()}", hint)


def open_admin(cluster: KafkaCluster) -> AdminClient:
    """A client for asking brokers. It remembers for minutes what was absent; a new one asks again."""
    return AdminClient({**cluster.client_settings(), "socket.timeout.ms": int(REQUEST_TIMEOUT_SECONDS * 1000)})


def create_topics(
    cluster: KafkaCluster,
    topics: Iterable[str],
    config: Mapping[str, str],
    partitions: int,
    admin: AdminClient | None = None,
) -> None:
    """Create those of `topics` that do not exist yet, through `admin` if there is one.

    Where the brokers' owner does not let topics take messages as large as `config`
    says, they take what he does. Raises UnavailableError or PenstockError.
    """
    wanted = [
        NewTopic(topic, num_partitions=partitions, replication_factor=cluster.replication, config=dict(config))
        for topic in topics
    ]
    if not wanted:
        return
    admin = admin or open_admin(cluster)
    limited = []
    for topic, outcome in admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_SECONDS).items():
        try:
            outcome.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in _SETTING_REFUSED and LARGEST_MESSAGE in config:
                limited.append(topic)
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise explain(error, f"creating topic {topic}") from error
    rest = {name: value for name, value in config.items() if name != LARGEST_MESSAGE}
    create_topics(cluster, limited, rest, partitions, admin)
