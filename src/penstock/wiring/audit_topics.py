"""Opens a table's topic for an audit by URL: its messages are folded by key in a folder that goes."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.adapters.duckdb.folded_rows import DuckdbFoldedRows
from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import schemas_topic, timelines_topic
from penstock.adapters.registry.access import RegistryAccess
from penstock.adapters.registry.client import HttpRegistry
from penstock.adapters.registry.topics import TopicOfTable, read_topic
from penstock.core.errors import UsageError
from penstock.links.audit.table_changes import TableChanges
from penstock.links.audit.told_table import NamedTopics, ToldTables
from penstock.links.audit.topic_stage import TopicStage
from penstock.links.audit.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from penstock.links.audit.told_table import TopicsOfTables

TOPIC_FORM: Final = "topic://host:9092/TOPIC?schematizer=http://host:8081"
_OPTIONS: Final = frozenset(
    {
        *("schematizer", "schematizer_user", "schematizer_password_env", "schematizer_token_env"),
        *("pipeline", "protocol", "mechanism", "ca_file"),
    }
)
_BROKERS: Final = re.compile(r"[^\s:,]+(:\d+)?(,[^\s:,]+(:\d+)?)*")
_PLAINTEXT: Final = "PLAINTEXT"
_PROTOCOLS: Final = (_PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_UNTOLD: Final = (
    "without &pipeline=NAME in its URL, it is not known of a topic where its table was emptied or renamed, nor of "
    "failovers: rows from before may be left in it"
)


@dataclass(frozen=True, slots=True)
class TopicUrl:
    """The brokers, the topic, its registry, and the name of the pipeline that writes it, "" if that is not said."""

    cluster: KafkaCluster
    topic: str
    registry: RegistryAccess
    pipeline: str


def open_topic(url: TopicUrl, stack: ExitStack) -> TopicTable:
    """Find the topic; `stack` closes what it is read with, and deletes what was folded.

    Raises UsageError for a topic that is not the newest of a table with a key, and UnavailableError.
    """
    registry = stack.enter_context(closing(HttpRegistry(url.registry)))
    found = read_topic(registry, url.topic)
    _require_keyed_and_newest(url.topic, found)
    log = stack.enter_context(closing(TopicReader(url.cluster)))
    folder = stack.enter_context(TemporaryDirectory(prefix="penstock-audit-"))
    folded = stack.enter_context(closing(DuckdbFoldedRows(Path(folder) / "topic.duckdb")))
    changes = TableChanges(found.source, found.schema, folded, registry)
    changes.create()
    stage = TopicStage(log, log.begins, _topics(url, found, log), changes)
    return TopicTable(stage, changes, "" if url.pipeline else _UNTOLD)


def parse_topic_url(text: str, given_password: str) -> TopicUrl:
    """Read `topic://...`; the password counts where the URL has none. Raises UsageError, without any password in it."""
    url = urlsplit(text)
    login, _, brokers = url.netloc.rpartition("@")
    user, _, password = (unquote(part) for part in login.partition(":"))
    topic, options = unquote(url.path.lstrip("/")), dict(parse_qsl(url.query))
    if any("@" in part for part in (url.path, *options)):
        # What is before it may be a part of a password.
        _refuse(
            "the URL of a topic has an @ behind its brokers",
            "write / ? # and @ of a password as %2F %3F %23 and %40, or give it by --from-password-env",
        )
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        _refuse(f"the URL of a topic has no option {', '.join(unknown)}", f"it has {', '.join(sorted(_OPTIONS))}")
    if not (_BROKERS.fullmatch(brokers) and topic and "/" not in topic):
        _refuse("the URL of a topic names brokers and one topic", f"write {TOPIC_FORM}; several brokers with commas")
    if not options.get("schematizer"):
        _refuse(
            f"the URL of topic {topic} does not say where its schemas are", f"add ?schematizer=URL: write {TOPIC_FORM}"
        )
    cluster = KafkaCluster(brokers, login=_kafka_login(user, password or given_password, options))
    return TopicUrl(cluster, topic, _registry(options), options.get("pipeline", ""))


def _kafka_login(user: str, password: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return librdkafka's options that log in."""
    protocol, mechanism = options.get("protocol", _PLAINTEXT), options.get("mechanism", "SCRAM-SHA-512")
    if protocol not in _PROTOCOLS or mechanism not in _MECHANISMS:
        _refuse(
            f"protocol={protocol} and mechanism={mechanism} are no way to log in to Kafka",
            f"write &protocol= {', '.join(_PROTOCOLS)}; &mechanism= {', '.join(_MECHANISMS)}",
        )
    if bool(user) != protocol.startswith("SASL"):
        _refuse(
            "the URL of a topic has a user, or a protocol for one, but not both",
            "write topic://user@host:9093/TOPIC?protocol=SASL_SSL (or SASL_PLAINTEXT); without a user, neither",
        )
    if "ca_file" in options and not protocol.endswith("SSL"):
        _refuse("the URL of a topic has a ca_file, and a protocol without TLS", "add &protocol=SSL or SASL_SSL")
    given = {} if protocol == _PLAINTEXT else {"security.protocol": protocol}
    if "ca_file" in options:
        given["ssl.ca.location"] = options["ca_file"]
    if user:
        given |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return tuple(given.items())


def _registry(options: Mapping[str, str]) -> RegistryAccess:
    url = options["schematizer"]
    if "@" in url:
        # Messages tell this URL.
        _refuse(
            "the URL of a schematizer has a user in it",
            "write &schematizer_user=NAME&schematizer_password_env=VARIABLE, or &schematizer_token_env=VARIABLE",
        )
    user, password_env, token_env = (
        options.get(f"schematizer_{each}") for each in ("user", "password_env", "token_env")
    )
    return RegistryAccess(url, user, password_env, token_env)


def _require_keyed_and_newest(topic: str, found: TopicOfTable) -> None:
    if not found.schema.key:
        _refuse(
            f"topic {topic} is a log of changes: its table {found.schema.table} has no primary key",
            "audit the table's copy in a target, with --key",
        )
    if topic != found.topics[-1]:
        _refuse(
            f"topic {topic} has only older changes of {found.schema.table}, which goes on in {found.topics[-1]}",
            f"name {found.topics[-1]}: what came before is read, too",
        )


def _topics(url: TopicUrl, found: TopicOfTable, log: TopicReader) -> TopicsOfTables:
    """Return who tells of the table's topics, and make sure that there are any."""
    if url.topic not in log.shapes([url.topic]):
        _refuse(
            f"there is no topic {url.topic} at {url.cluster.bootstrap_servers}",
            "check that the brokers are those that its pipeline writes to, and that it has written there",
        )
    if not url.pipeline:
        return NamedTopics(found.topics, log.shapes)
    told = ToldTables(log, schemas_topic(url.pipeline), timelines_topic(url.pipeline))
    told.read()
    if url.topic not in dict(told.of(found.source, found.schema.table).topics):
        _refuse(
            f"pipeline {url.pipeline} has told nothing of topic {url.topic} at these brokers",
            "give &pipeline= the name under `pipeline` in the file of the pipeline that writes the topic",
        )
    return told


def _refuse(message: str, hint: str) -> NoReturn:
    raise UsageError(message, hint)
