"""What the /v1 API answers about who uses topics, as OpenAPI describes it."""

from pydantic import Field

from penstock.schematizer.api.answers import Answer, Milliseconds, NextPage
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.usage_models import (
    Client,
    ClientUse,
    ConsumerGroup,
    DataTarget,
    Refresh,
    RefreshStatus,
    Role,
    Scope,
)

_MS = 1_767_225_600_000


class RefreshAnswer(Answer):
    """One wish to have a source's rows again."""

    id: int = Field(examples=[1])
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(examples=["shop.orders"])
    table_schema: str = Field(examples=["shop"])
    table_name: str = Field(examples=["orders"])
    status: RefreshStatus = Field(examples=["in_progress"])
    priority: int = Field(description="The highest is the first: low 25, medium 50, high 75, max 100", examples=[50])
    rows_done: int = Field(examples=[20_000])
    rows_total: int | None = Field(description="None where nobody says", examples=[100_000])
    offset: str = Field(
        description='Where to go on, in the refresher\'s own words; "" at the start', examples=["20000"]
    )
    batch_rows: int = Field(description="How many rows to read at once", examples=[1000])
    rows_per_second_max: int | None = Field(description="None without a limit", examples=[5000])
    filter_condition: str = Field(description='A condition in SQL; "" for every row', examples=["id > 1000"])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")
    updated_at_ms: Milliseconds = Field(description="Unix milliseconds")
    started_at_ms: int | None = Field(description="Its first start, Unix milliseconds", examples=[_MS])
    ended_at_ms: int | None = Field(description="Its end, Unix milliseconds", examples=[None])

    @classmethod
    def of(cls, refresh: Refresh) -> "RefreshAnswer":
        """Render `refresh`."""
        source = refresh.source
        return cls(
            id=refresh.id,
            namespace=source.namespace.name,
            table=f"{source.table_schema}.{source.table_name}",
            table_schema=source.table_schema,
            table_name=source.table_name,
            status=RefreshStatus(refresh.status),
            priority=refresh.priority,
            rows_done=refresh.rows_done,
            rows_total=refresh.rows_total,
            offset=refresh.offset,
            batch_rows=refresh.batch_rows,
            rows_per_second_max=refresh.rows_per_second_max,
            filter_condition=refresh.filter_condition,
            created_at_ms=refresh.created_at_ms,
            updated_at_ms=refresh.updated_at_ms,
            started_at_ms=refresh.started_at_ms,
            ended_at_ms=refresh.ended_at_ms,
        )


class TargetAnswer(Answer):
    """Where streams end up."""

    name: str = Field(examples=["warehouse"])
    type: str = Field(examples=["redshift"])
    destination: str = Field(description="Which one, in words or as a URL", examples=["analytics-cluster/dev"])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, target: DataTarget) -> "TargetAnswer":
        """Render `target`."""
        return cls(
            name=target.name, type=target.type, destination=target.destination, created_at_ms=target.created_at_ms
        )


class GroupAnswer(Answer):
    """A Kafka consumer group that fills a data target."""

    name: str = Field(examples=["warehouse-loader"])
    data_target: str = Field(examples=["warehouse"])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, group: ConsumerGroup) -> "GroupAnswer":
        """Render `group`."""
        return cls(name=group.name, data_target=group.data_target.name, created_at_ms=group.created_at_ms)


class DataSourceAnswer(Answer):
    """What a consumer group reads. A namespace or a source stands for every topic of it, later ones too."""

    id: int = Field(examples=[1])
    consumer_group: str = Field(examples=["warehouse-loader"])
    scope: Scope = Field(examples=["source"])
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(description='"" for a whole namespace', examples=["shop.orders"])
    topic: str = Field(description='"" unless it is one topic alone', examples=[""])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")


class ReachedTargetAnswer(Answer):
    """A data target that a topic or a schema ends up in, and the consumer groups that bring it there."""

    data_target: TargetAnswer
    consumer_groups: list[str] = Field(examples=[["warehouse-loader"]])


class ClientAnswer(Answer):
    """A program that produces or consumes."""

    name: str = Field(examples=["billing"])
    role: Role = Field(examples=["consumer"])
    team: str = Field(examples=["payments"])
    owner_email: str = Field(examples=["payments-team@example.com"])
    expected_frequency_seconds: int | None = Field(
        description="How often it should be seen on each of its topics; None where nobody says", examples=[3600]
    )
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, client: Client) -> "ClientAnswer":
        """Render `client`."""
        return cls(
            name=client.name,
            role=Role(client.role),
            team=client.team,
            owner_email=client.owner_email,
            expected_frequency_seconds=client.expected_frequency_seconds,
            created_at_ms=client.created_at_ms,
        )


class UseAnswer(Answer):
    """A producer or consumer on a topic."""

    client: ClientAnswer
    topic: str = Field(examples=["shopdb.shop.orders"])
    schema_id: int | None = Field(description="The schema that it used last; None if it did not say", examples=[2])
    first_seen_at_ms: Milliseconds = Field(description="Unix milliseconds")
    last_seen_at_ms: Milliseconds = Field(description="Unix milliseconds, up to a minute early")
    is_late: bool | None = Field(
        description="Whether it was not seen for longer than expected; None where nothing is", examples=[False]
    )

    @classmethod
    def of(cls, use: ClientUse) -> "UseAnswer":
        """Render `use` as it is now."""
        expected = use.client.expected_frequency_seconds
        return cls(
            client=ClientAnswer.of(use.client),
            topic=use.topic.name,
            schema_id=use.schema_id,
            first_seen_at_ms=use.first_seen_at_ms,
            last_seen_at_ms=use.last_seen_at_ms,
            is_late=None if expected is None else now_ms() - use.last_seen_at_ms > expected * 1000,
        )


class MetaAttributeAnswer(Answer):
    """Data of another schema that messages carry beside their own."""

    schema_id: int = Field(description="The meta attribute's schema", examples=[7])
    scope: Scope = Field(description="What it was said of", examples=["namespace"])
    namespace: str = Field(description='"" where it was said of a schema', examples=["shopdb"])
    table: str = Field(description='"" unless it was said of a source', examples=[""])


class RefreshList(Answer):
    """Refreshes."""

    items: list[RefreshAnswer]
    next: NextPage


class TargetList(Answer):
    """Data targets, by name."""

    items: list[TargetAnswer]
    next: NextPage


class GroupList(Answer):
    """Consumer groups, by name."""

    items: list[GroupAnswer]
    next: NextPage


class DataSourceList(Answer):
    """What a consumer group reads, the oldest first."""

    items: list[DataSourceAnswer]
    next: NextPage


class ReachedTargetList(Answer):
    """Data targets, by name."""

    items: list[ReachedTargetAnswer]
    next: NextPage


class ClientList(Answer):
    """Producers or consumers, by name."""

    items: list[ClientAnswer]
    next: NextPage


class UseList(Answer):
    """Producers or consumers on topics."""

    items: list[UseAnswer]
    next: NextPage


class MetaAttributeList(Answer):
    """Meta attributes, those of namespaces first."""

    items: list[MetaAttributeAnswer]
    next: NextPage
