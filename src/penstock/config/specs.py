"""What a pipeline's YAML file may say, key by key.

The specs are frozen and pickle, so that they travel to executors. They hold no
secrets, only the names of the environment variables that do. What one key alone
cannot show (that names are unique, that links lead somewhere) is checked in
`penstock.config.crosschecks`.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from penstock.config.columns import ColumnsSpec
from penstock.config.objects_spec import ObjectsSpec
from penstock.config.rules import (
    EnvironmentName,
    HeartbeatTable,
    KafkaServers,
    SourceName,
    SparkMaster,
    StateUrl,
    TableList,
    WebUrl,
    Zookeeper,
    refuse_later_kinds,
    refuse_unless_empty,
    spark_value,
)
from penstock.config.sinks import PostgresSinkSpec, RedshiftSinkSpec, SinkSpec
from penstock.config.spec import Name, Port, Positive, Spec, Text, TlsSpec
from penstock.config.spolts import SpoltSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.patterns import TablePatterns
from penstock.core.table_policy import RowImages, TablePolicy
from penstock.core.tables import TableId
from penstock.core.warehouse.load_plan import (  # noqa: TC001 - pydantic reads them from fields' annotations
    Deletes,
    DroppedTables,
    Overflow,
)
from penstock.core.zero_dates import ZeroDates  # noqa: TC001 - pydantic reads it from a field's annotation

EmbeddedPart: TypeAlias = Literal["kafka", "schematizer", "state", "tracker", "objects"]
EMBEDDED_PARTS: tuple[EmbeddedPart, ...] = ("kafka", "schematizer", "state", "tracker", "objects")

SERVER_IDS_PER_SOURCE = 1024
BACKLOG_TASKS_MAX = 64
_SERVER_ID_MIN = 2**31

SparkConf: TypeAlias = dict[str, Annotated[str, BeforeValidator(spark_value)]]


class KafkaSecuritySpec(Spec):
    """How to log in to a broker; the names are librdkafka's, the password stays in the environment."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    user: Text | None = None
    password_env: EnvironmentName | None = None
    ca_file: Path | None = None


class KafkaSpec(Spec):
    """The brokers, and how topics are made on them. Without `bootstrap_servers` a private broker is started.

    `transactions: false` is for brokers, or proxies before them, that cannot do
    transactions: positions are then kept in the state database.
    """

    bootstrap_servers: KafkaServers | None = None
    partitions: Positive = 1
    replication: Positive = 1
    transactions: Annotated[bool, Field(strict=True)] = True
    security: KafkaSecuritySpec = KafkaSecuritySpec()


class SchematizerSpec(Spec):
    """A Schematizer that runs elsewhere, and how to sign in: with user and password, with a token, or not at all.

    `ca_file` is the authority (PEM) whose certificate it has, where that is not one of this machine's.
    """

    url: WebUrl
    user: Text | None = None
    password_env: EnvironmentName | None = None
    token_env: EnvironmentName | None = None
    ca_file: Path | None = None


class StateSpec(Spec):
    """A state database that is not the embedded SQLite: by URL, or by the variable that holds one with a password."""

    url: StateUrl | None = None
    url_env: EnvironmentName | None = None


class LockSpec(Spec):
    """The leader's lock: a file under home, or in ZooKeeper ("host:port,host:port/path").

    `session_seconds` is how long a leader may be silent before another instance
    takes its place.
    """

    zookeeper: Zookeeper | None = None
    session_seconds: Annotated[float, Field(strict=True, ge=1, le=60)] = 6.0


class TrackerSpec(Spec):
    """A MariaDB or MySQL server of which nothing but schemas is asked, and which is all ours."""

    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None


class SparkSpec(Spec):
    """Where Spark runs, and further settings for it."""

    master: SparkMaster = "local[*]"
    conf: SparkConf = Field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs on this machine."""
        return self.master.startswith("local")


class HeartbeatSpec(Spec):
    """A row that is written into the source every `period_seconds`, in `table` (schema.name), which is made if missing.

    `heartbeat: {}` is enough. Several pipelines may share a table.
    """

    table: HeartbeatTable = "penstock.heartbeat"
    period_seconds: Annotated[float, Field(strict=True, ge=0.1, le=3600)] = 10.0

    @property
    def table_id(self) -> TableId:
        """The table."""
        return TableId.parse(self.table)


class MysqlSourceSpec(Spec):
    """A MySQL or MariaDB server, and the tables of it that are carried.

    `start: auto` begins at the start of the binlog if the server still has it
    whole, else with a copy; `log` and `copy` insist. `server_id` is the first
    of the SERVER_IDS_PER_SOURCE replica ids that are ours on that server. Without
    `tls` nothing is encrypted. `zero_dates` says what becomes of 0000-00-00 and
    other dates that no calendar has, `row_images` of rows that were logged
    without all of their columns. Rows of XA transactions are held in memory from
    XA PREPARE to XA COMMIT, `prepared_xa_mebibytes_max` of them at most; those of
    more than 1 GiB would have places behind the next transaction. A
    publication begins `publish_interval_ms` after the one before, or later; 0
    gives the least latency, for more CPU. `backlog_tasks` files of a backlog are
    read side by side, each by a task that publishes it in its turn; with 1 a single
    task reads and publishes all of it. A first copy that takes longer than
    `copy_commit_seconds` is committed in pieces.
    `retention_warning_hours` is how soon the binlog that we need may be purged
    before we warn.
    Without `heartbeat` nothing is written to the source.
    """

    name: SourceName
    kind: Literal["mysql"]
    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None
    tables: TableList
    start: Literal["auto", "log", "copy"] = "auto"
    server_id: Annotated[int, Field(strict=True, ge=1, le=2**32 - 1 - SERVER_IDS_PER_SOURCE)] | None = None
    lease_seconds: Annotated[float, Field(strict=True, ge=1, le=3600)] = 300.0
    zero_dates: ZeroDates = "stop"
    row_images: RowImages = "full"
    prepared_xa_mebibytes_max: Annotated[int, Field(strict=True, ge=1, le=1024)] = 256
    publish_interval_ms: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 40
    backlog_tasks: Annotated[int, Field(strict=True, ge=1, le=BACKLOG_TASKS_MAX)] = 1
    copy_commit_seconds: Annotated[int, Field(strict=True, ge=0, le=600)] = 300
    retention_warning_hours: Annotated[float, Field(strict=True, ge=0, le=8760)] = 24.0
    heartbeat: HeartbeatSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_later_kinds(cls, given: object) -> object:
        return refuse_later_kinds(given, ("postgres",), "source of kind")

    @property
    def patterns(self) -> TablePatterns:
        """Which tables are wanted."""
        return TablePatterns(self.tables)

    @property
    def policy(self) -> TablePolicy:
        """How its tables are carried."""
        return TablePolicy(self.zero_dates, self.row_images)


class LinkSpec(Spec):
    """From a source to a sink: all of the source's tables, or those that `tables` matches too.

    `dropped_tables` says what the sink does with a table that the source drops:
    `keep` its rows as they last were, or `drop` it too; `deletes`, whether rows
    that the source deletes go (`hard`) or stay and say so (`soft`); `overflow`,
    what becomes of values that the sink cannot hold; `columns`, which columns the
    sink does not get, or not as they are.
    """

    source: Text = Field(alias="from")
    sink: Text = Field(alias="to")
    tables: TableList = ("*.*",)
    dropped_tables: DroppedTables = "keep"
    deletes: Deletes = "hard"
    overflow: Overflow = "stop"
    columns: ColumnsSpec = ColumnsSpec()

    @property
    def name(self) -> str:
        """What operators call it."""
        return f"{self.source}-to-{self.sink}"

    @property
    def patterns(self) -> TablePatterns:
        """Which of the source's tables are wanted."""
        return TablePatterns(self.tables)


class PipelineSpec(Spec):
    """One whole file. `penstock.config.load` makes `home` and the sinks' paths absolute."""

    pipeline: Name
    home: Path = Path(".penstock")
    kafka: KafkaSpec = KafkaSpec()
    schematizer: SchematizerSpec | None = None
    state: StateSpec = StateSpec()
    lock: LockSpec = LockSpec()
    objects: ObjectsSpec = ObjectsSpec()
    tracker: TrackerSpec | None = None
    spark: SparkSpec = SparkSpec()
    sources: Annotated[tuple[MysqlSourceSpec, ...], Field(min_length=1)]
    sinks: tuple[SinkSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    spolts: tuple[SpoltSpec, ...] = ()
    joins: Annotated[tuple[()], BeforeValidator(refuse_unless_empty("a join"))] = ()
    audits: Annotated[tuple[()], BeforeValidator(refuse_unless_empty("an audit"))] = ()

    def is_embedded(self, part: EmbeddedPart) -> bool:
        """Whether a private `part` is kept under home, because the file names none."""
        match part:
            case "kafka":
                return self.kafka.bootstrap_servers is None
            case "state":
                return self.state.url is None and self.state.url_env is None
            case "schematizer":
                return self.schematizer is None
            case "tracker":
                return self.tracker is None
            case "objects":
                return self.objects.url is None

    def secret_names(self) -> tuple[str, ...]:
        """The environment variables that hold the pipeline's secrets."""
        names = {self.state.url_env, self.kafka.security.password_env, *(s.password_env for s in self.sources)}
        names |= {sink.password_env for sink in self.sinks if isinstance(sink, PostgresSinkSpec | RedshiftSinkSpec)}
        names |= {link.columns.salt_env for link in self.links}
        names |= {salt for spolt in self.spolts for salt in spolt.salt_names}
        if self.tracker is not None:
            names.add(self.tracker.password_env)
        if self.schematizer is not None:
            names |= {self.schematizer.password_env, self.schematizer.token_env}
        return tuple(sorted(name for name in names if name is not None))

    def source(self, name: str) -> MysqlSourceSpec:
        """The source called `name`; KeyError if there is none."""
        return {source.name: source for source in self.sources}[name]

    def spolt(self, name: str) -> SpoltSpec:
        """The spolt called `name`; KeyError if there is none."""
        return {spolt.name: spolt for spolt in self.spolts}[name]

    def sink(self, name: str) -> SinkSpec:
        """The sink called `name`; KeyError if there is none."""
        return {sink.name: sink for sink in self.sinks}[name]

    def server_id(self, source: MysqlSourceSpec) -> int:
        """The first of the SERVER_IDS_PER_SOURCE replica ids that this pipeline uses on `source`.

        The same for the same names for ever, in 2**31 and up, where people seldom
        number servers by hand. Every connection that reads the log at the same
        time needs an id of its own: a server drops the older of two that are equal.
        """
        if source.server_id is not None:
            return source.server_id
        blocks = (2**32 - _SERVER_ID_MIN) // SERVER_IDS_PER_SOURCE - 1
        block = zlib.crc32(f"{self.pipeline}/{source.name}".encode()) % blocks
        return _SERVER_ID_MIN + block * SERVER_IDS_PER_SOURCE
