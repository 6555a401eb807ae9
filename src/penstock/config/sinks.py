"""What a pipeline's YAML file may say of its sinks."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it from a field's annotation
from pathlib import Path  # noqa: TC003 - as above
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from penstock.config.expressions import Expression  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.rules import (  # noqa: TC001 - pydantic reads them from fields' annotations
    EnvironmentName,
    ObjectsUrl,
    RedshiftEncoding,
    TableList,
    WebUrl,
)
from penstock.config.spec import Name, Port, Spec, Text, TlsSpec
from penstock.config.tasks import Tasks  # noqa: TC001 - as above
from penstock.config.zone_tasks import SCHEDULE_PATTERN, ZoneTasks
from penstock.core.patterns import TablePatterns
from penstock.core.warehouse.landing_rules import ZoneRule


class DuckdbSinkSpec(Spec):
    """A DuckDB file, which Penstock alone writes. `tasks` run in it."""

    name: Name
    kind: Literal["duckdb"]
    path: Path
    tasks: Tasks = ()

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables that hold its secrets."""
        return frozenset()

    def located(self, directory: Path) -> DuckdbSinkSpec:
        """Return it with files that are named from `directory` on named from the root."""
        return self.model_copy(update={"path": (directory / self.path).resolve()})


class PostgresSinkSpec(Spec):
    """A database of a PostgreSQL server. Penstock makes its schemas and tables, and a schema `penstock`, in it.

    Without `tls` the connection is encrypted where the server offers it, and
    nobody looks at the server's certificate. So many tables as it has
    `connections` are loaded side by side. `tasks` run in it.
    """

    name: Name
    kind: Literal["postgres"]
    host: Text
    port: Port = 5432
    database: Text
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None
    connections: Annotated[int, Field(strict=True, ge=1, le=16)] = 2
    tasks: Tasks = ()

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables that hold its secrets."""
        return frozenset({self.password_env})

    def located(self, directory: Path) -> PostgresSinkSpec:
        """Return it with files that are named from `directory` on named from the root."""
        return self.model_copy(update={"tls": self.tls and self.tls.located(directory)})


class RedshiftTableSpec(Spec):
    """How the tables that `match` are made: spread, sorted and compressed. What is not said is left to Redshift.

    Keys of columns that a table has not are passed over. Tables that are there
    already stay as they are.
    """

    match: TableList
    distribution: Literal["auto", "even", "all"] = "auto"
    distkey: Text | None = None
    sortkey: tuple[Text, ...] = ()
    interleaved: Annotated[bool, Field(strict=True)] = False
    encode: Mapping[Text, RedshiftEncoding] = Field(default_factory=dict)

    @property
    def patterns(self) -> TablePatterns:
        """Which tables are meant."""
        return TablePatterns(self.match)


class RedshiftSinkSpec(Spec):
    """A database of an Amazon Redshift cluster or workgroup, into which COPY brings the files of `objects`.

    They must be on S3. The cluster reads them as `iam_role`, else with the keys in
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN). The server's
    certificate must be signed by one of Amazon's or this machine's authorities,
    and be for `host` unless `sslmode` is verify-ca. JSON documents are texts as the
    source has them, or SUPER, which is for looking into. Of `tables`, the first
    that matches counts. `tasks` run in it.
    """

    name: Name
    kind: Literal["redshift"]
    host: Text
    port: Port = 5439
    database: Text
    user: Text
    password_env: EnvironmentName
    sslmode: Literal["verify-full", "verify-ca", "disable"] = "verify-full"
    iam_role: Text | None = None
    json_type: Literal["varchar", "super"] = "varchar"
    tables: tuple[RedshiftTableSpec, ...] = ()
    tasks: Tasks = ()

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables that hold its secrets, but for AWS's own."""
        return frozenset({self.password_env})

    def located(self, directory: Path) -> RedshiftSinkSpec:
        """Return it as it is: it names no files."""
        del directory
        return self


class DeltaSinkSpec(Spec):
    """A folder of Delta tables, `SCHEMA/TABLE` each: at `path` on this machine, or at `url`, or beside the objects.

    `endpoint` is for a store that speaks S3 without being AWS; `region` is the bucket's.
    """

    name: Name
    kind: Literal["delta"]
    path: Path | None = None
    url: ObjectsUrl | None = None
    endpoint: WebUrl | None = None
    region: Text = "us-east-1"

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables that hold its secrets, but for AWS's own."""
        return frozenset()

    def located(self, directory: Path) -> DeltaSinkSpec:
        """Return it with files that are named from `directory` on named from the root."""
        return self.model_copy(update={"path": self.path and (directory / self.path).resolve()})


class SnowflakeTableSpec(Spec):
    """What tasks make of rows of the tables that `match`, in Snowflake's SQL over a row.

    Public tables have the rows for which `where` is true. Of `columns`, those that the
    source has are converted; any other is new, and its expression is a CAST.
    """

    match: TableList
    where: Expression | None = None
    columns: Mapping[Text, Expression] = Field(default_factory=dict)

    @property
    def rule(self) -> ZoneRule:
        """It, as a landing zone has it."""
        return ZoneRule(TablePatterns(self.match), self.where or "", tuple(self.columns.items()))


class SnowflakeSinkSpec(Spec):
    """A database of a Snowflake account: messages land in the schema `landing`, and tasks merge them into tables.

    With `landing: false` the tables are loaded as those of other warehouses are. `load_by`
    says how rows come: as parameters of INSERT, or as files by PUT and COPY INTO.

    The login is by `password_env` or by `private_key_file`. The `warehouse` runs
    loads and tasks, these by `schedule`, as CREATE TASK takes it. The roles `readers`
    may read landing and public tables, and nobody else may write to landing tables.
    Of `tables`, the first that matches counts. Snowflake runs `tasks` behind the merges.
    `host`, `port` and `protocol` are for an account that is reached in another way than
    by its name.
    """

    name: Name
    kind: Literal["snowflake"]
    account: Text
    user: Text
    password_env: EnvironmentName | None = None
    private_key_file: Path | None = None
    database: Text
    warehouse: Text
    role: Text | None = None
    landing: Text | Literal[False] = "landing"
    load_by: Literal["insert", "copy"] = "insert"
    readers: tuple[Text, ...] = ()
    schedule: Annotated[str, Field(pattern=SCHEDULE_PATTERN)] = "1 MINUTE"
    tables: tuple[SnowflakeTableSpec, ...] = ()
    tasks: ZoneTasks = ()
    host: Text | None = None
    port: Port = 443
    protocol: Literal["https", "http"] = "https"

    @model_validator(mode="after")
    def _has_one_login(self) -> SnowflakeSinkSpec:
        if (self.password_env is None) == (self.private_key_file is None):
            message = "give either password_env or private_key_file"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _has_a_zone_for_its_settings(self) -> SnowflakeSinkSpec:
        given = {"readers", "schedule", "tables", "tasks"} & self.model_fields_set
        if self.landing is False and given:
            message = f"{' and '.join(sorted(given))} of a landing zone, and the sink says landing: false: take one out"
            raise ValueError(message)
        return self

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables that hold its secrets."""
        return frozenset({self.password_env}) if self.password_env else frozenset()

    def located(self, directory: Path) -> SnowflakeSinkSpec:
        """Return it with files that are named from `directory` on named from the root."""
        key = self.private_key_file
        return self.model_copy(update={"private_key_file": key and (directory / key).resolve()})


SinkSpec: TypeAlias = Annotated[
    DuckdbSinkSpec | PostgresSinkSpec | RedshiftSinkSpec | DeltaSinkSpec | SnowflakeSinkSpec,
    Field(discriminator="kind"),
]

TaskSinkSpec: TypeAlias = DuckdbSinkSpec | PostgresSinkSpec | RedshiftSinkSpec
"""Sinks that can have tasks."""
