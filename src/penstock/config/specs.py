"""What a pipeline's YAML file may say, key by key.

The specs are frozen and pickle, so that they travel to executors. They hold no
secrets, only the names of the environment variables that do. What one key alone
cannot show (that names are unique, that links lead somewhere) is checked in
`penstock.config.crosschecks`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from penstock.config.audits import AuditSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.columns import ColumnsSpec
from penstock.config.joins import JoinSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.mysql_source import MysqlSourceSpec, TrackerSpec
from penstock.config.objects_spec import ObjectsSpec
from penstock.config.police import PoliceSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.config.rules import (
    EnvironmentName,
    KafkaServers,
    SparkMaster,
    StateUrl,
    TableList,
    TargetSchema,
    WebUrl,
    Zookeeper,
    spark_value,
)
from penstock.config.sinks import SinkSpec  # noqa: TC001 - as below
from penstock.config.spec import Name, Positive, Spec, Text
from penstock.config.spolts import SpoltSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.web import WebSpec
from penstock.core.patterns import TablePatterns
from penstock.core.warehouse.load_plan import (  # noqa: TC001 - pydantic reads them from fields' annotations
    Deletes,
    DroppedTables,
    Overflow,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

EmbeddedPart: TypeAlias = Literal["kafka", "schematizer", "state", "tracker", "objects"]
EMBEDDED_PARTS: tuple[EmbeddedPart, ...] = ("kafka", "schematizer", "state", "tracker", "objects")

SourceSpec: TypeAlias = MysqlSourceSpec | PostgresSourceSpec
"""A source of any kind: each has a spec of its own, which its `kind` picks."""

SparkConf: TypeAlias = dict[str, Annotated[str, BeforeValidator(spark_value)]]


_PUBLISH_SECONDS = 0.04
_PUBLISH_SECONDS_MAX = 0.25
"""How far apart publications of a source are that says nothing: between these, by what its targets ask for."""

FRESHNESS_MS: Mapping[str, int] = {
    "duckdb": 250,
    "postgres": 250,
    "redshift": 2_000,
    "delta": 2_000,
    "snowflake": 5_000,
}
"""By kind of sink: where a load is a commit of some seconds, files or money, changes gather for longer."""
_FILES_FRESHNESS_SECONDS = 1.0
"""Where nothing loads the files."""
_FILES_KEEP_HOURS = 168.0
_INLINE_BYTES_MAX = 1_024


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


class SparkSpec(Spec):
    """Where Spark runs, and further settings for it.

    `shared_home` says that the workers of a cluster see the pipeline's home at the same path.
    """

    master: SparkMaster = "local[*]"
    conf: SparkConf = Field(default_factory=dict)
    shared_home: Annotated[bool, Field(strict=True)] = False

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs on this machine."""
        return self.master.startswith("local")


class LinkSpec(Spec):
    """From a source to a sink: all of the source's tables, or those that `tables` matches too.

    `dropped_tables` says what the sink does with a table that the source drops:
    `keep` its rows as they last were, or `drop` it too; `deletes`, whether rows
    that the source deletes go (`hard`) or stay and say so (`soft`); `overflow`,
    what becomes of values that the sink cannot hold; `columns`, which columns the
    sink does not get, or not as they are; `freshness_ms`, for how long changes may gather
    before a load, so that a load begins no more often; each kind of sink has a default.
    `schema` is where the sink has the tables,
    which must be of one schema of the source, if not in a schema of that name.
    """

    source: Text = Field(alias="from")
    sink: Text = Field(alias="to")
    target_schema: TargetSchema | None = Field(default=None, alias="schema")
    tables: TableList = ("*.*",)
    dropped_tables: DroppedTables = "keep"
    deletes: Deletes = "hard"
    overflow: Overflow = "stop"
    columns: ColumnsSpec = ColumnsSpec()
    freshness_ms: Annotated[int, Field(strict=True, ge=0, le=3_600_000)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _require_null_in_quotes(cls, given: object) -> object:
        """Refuse a null of YAML, which counts as no value: nobody would get the NULLs that he asked for."""
        if isinstance(given, dict) and "overflow" in given and given["overflow"] is None:
            message = 'overflow has no value: write "null" in quotes for values to become NULL, or leave the key out'
            raise ValueError(message)
        return given

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
    sources: Annotated[tuple[Annotated[SourceSpec, Field(discriminator="kind")], ...], Field(min_length=1)]
    sinks: tuple[SinkSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    spolts: tuple[SpoltSpec, ...] = ()
    joins: tuple[JoinSpec, ...] = ()
    audits: tuple[AuditSpec, ...] = ()
    police: PoliceSpec | None = None
    web: Annotated[WebSpec | None, BeforeValidator(lambda given: None if given is False else given)] = WebSpec()

    @model_validator(mode="after")
    def _name_slots(self) -> Self:
        """Name what the sources make in their servers after the pipeline, so that no other one has it."""
        named = tuple(s.named_after(self.pipeline) if isinstance(s, PostgresSourceSpec) else s for s in self.sources)
        object.__setattr__(self, "sources", named)
        return self

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
                return any(self.tracker_of(source) is None for source in self.mysql_sources)
            case "objects":
                return self.objects.url is None

    @property
    def mysql_sources(self) -> tuple[MysqlSourceSpec, ...]:
        """The sources that are MySQL or MariaDB: what they are asked about tables, a tracker must know."""
        return tuple(source for source in self.sources if isinstance(source, MysqlSourceSpec))

    def freshness_seconds(self, link: LinkSpec) -> float:
        """For how long changes may gather before `link` loads them."""
        given = FRESHNESS_MS[self.sink(link.sink).kind] if link.freshness_ms is None else link.freshness_ms
        return given / 1000

    def publish_interval_seconds(self, source: SourceSpec) -> float:
        """How long after a publication of `source` began the next one may.

        Where changes gather for its targets, the capture is the place: whatever follows
        has less to do. What spolts and joins read should come soon.
        """
        if source.publish_interval_ms is not None:
            return source.publish_interval_ms / 1000
        gathering = [self.freshness_seconds(link) for link in self.links if link.source == source.name]
        if self.spolts or self.joins or not gathering:
            return _PUBLISH_SECONDS
        return min(max(min(gathering), _PUBLISH_SECONDS), _PUBLISH_SECONDS_MAX)

    @property
    def files_freshness_seconds(self) -> float:
        """For how long changes may gather before they become files: as short as any link wants it."""
        return min((self.freshness_seconds(link) for link in self.links), default=_FILES_FRESHNESS_SECONDS)

    @property
    def files_keep_hours(self) -> float | None:
        """How long files stay that every target has loaded, None for ever: without transactions nothing refills one."""
        default = _FILES_KEEP_HOURS if self.kafka.transactions else math.inf
        hours = default if self.objects.keep_hours is None else self.objects.keep_hours
        return None if math.isinf(hours) else hours

    @property
    def inline_bytes_max(self) -> int:
        """Up to which size a file is in its batch message; 0 for none.

        None, unless the file says otherwise, where programs may rely on files, which somebody
        keeps, or where columns are treated: what is in messages may stay for ever, as the source had it.
        """
        if self.objects.inline_bytes_max is not None:
            return self.objects.inline_bytes_max
        is_kept = self.objects.keep_hours is not None or not self.kafka.transactions
        return 0 if is_kept or any(link.columns.are_treated for link in self.links) else _INLINE_BYTES_MAX

    def secret_names(self) -> tuple[str, ...]:
        """The environment variables that hold the pipeline's secrets."""
        names = {self.state.url_env, self.kafka.security.password_env, *(s.password_env for s in self.sources)}
        names |= {name for sink in self.sinks for name in sink.secret_names}
        names |= {link.columns.salt_env for link in self.links}
        names |= {salt for spolt in self.spolts for salt in spolt.salt_names}
        names |= {tracker.password_env for each in self.sources if (tracker := self.tracker_of(each)) is not None}
        if self.schematizer is not None:
            names |= {self.schematizer.password_env, self.schematizer.token_env}
        return tuple(sorted(name for name in names if name is not None))

    def source(self, name: str) -> SourceSpec:
        """The source called `name`; KeyError if there is none."""
        return {source.name: source for source in self.sources}[name]

    def tracker_of(self, source: SourceSpec) -> TrackerSpec | None:
        """The schema tracker of `source`, None for a private one; the file's own one is that of its only source."""
        return (source.tracker or self.tracker) if isinstance(source, MysqlSourceSpec) else None

    def spolt(self, name: str) -> SpoltSpec:
        """The spolt called `name`; KeyError if there is none."""
        return {spolt.name: spolt for spolt in self.spolts}[name]

    def join(self, name: str) -> JoinSpec:
        """The join called `name`; KeyError if there is none."""
        return {join.name: join for join in self.joins}[name]

    def sink(self, name: str) -> SinkSpec:
        """The sink called `name`; KeyError if there is none."""
        return {sink.name: sink for sink in self.sinks}[name]
