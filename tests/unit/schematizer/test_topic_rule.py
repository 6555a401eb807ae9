"""Which topic and which ids a table gets."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update
from tests.unit.schematizer.served import begin_migrated

from penstock.core.tables import (
    Column,
    DateTimeType,
    DecimalType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
)
from penstock.schematizer.metadata.catalog import read_topic
from penstock.schematizer.refusals import RefusedError
from penstock.schematizer.registry.registered import Registered
from penstock.schematizer.registry.registration import register_table
from penstock.schematizer.registry.schemas import parse_schema
from penstock.schematizer.registry.subjects import register_version
from penstock.schematizer.registry.tables import Registering, shape_of_table
from penstock.schematizer.registry.topic_names import (
    collision_name,
    is_legal,
    plan_distinct_topic_name,
    plan_topic_name,
)
from penstock.schematizer.registry.topic_rule import TopicFacts
from penstock.schematizer.storage.database import AuthoredDatabase, Database, open_database
from penstock.schematizer.storage.models import Element, Status, SubjectVersion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = Column("id", IntegerType(64, unsigned=False), nullable=False, declaration="bigint")
NOTE = Column("note", TextType(64, "utf8mb4"), nullable=True, declaration="varchar(64)")
PRICE = Column("price", DecimalType(10, 2), nullable=False, declaration="decimal(10,2)")
WIDE_PRICE = replace(PRICE, type=DecimalType(12, 2), declaration="decimal(12,2)")
ORDERS = TableSchema(TableId("shop", "orders"), (ID, PRICE), ("id",))
WIDER = replace(ORDERS, columns=(ID, WIDE_PRICE))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path / 'schematizer.db'}"
    begin_migrated(url)
    opened = open_database(url)
    yield opened
    opened.close()


def register(database: Database, table: TableSchema, namespace: str = "shopdb", *, pii: bool = False) -> Registered:
    return register_table(AuthoredDatabase(database), shape_of_table(Registering(namespace, pii), table))


def with_columns(*columns: Column) -> TableSchema:
    return replace(ORDERS, columns=columns)


def test_the_same_table_gets_the_same_answer_for_ever(database: Database) -> None:
    first = register(database, ORDERS)

    assert first == Registered("shopdb.shop.orders", 1, 2, "")
    assert [register(database, ORDERS) for _ in range(3)] == [first] * 3


def test_a_restarted_service_gives_the_same_answer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'schematizer.db'}"
    before = open_database(url)
    first = register(before, ORDERS)
    before.close()

    after = open_database(url)

    assert register(after, ORDERS) == first
    after.close()


def test_an_added_nullable_column_stays_on_the_topic(database: Database) -> None:
    first = register(database, ORDERS)

    second = register(database, with_columns(ID, PRICE, NOTE))

    assert second == replace(first, value_schema_id=3)


def test_a_shape_that_is_still_on_the_newest_topic_keeps_its_id(database: Database) -> None:
    first = register(database, ORDERS)
    register(database, with_columns(ID, PRICE, NOTE))

    assert register(database, ORDERS) == first


def test_a_widened_decimal_opens_the_next_topic(database: Database) -> None:
    first = register(database, ORDERS)

    second = register(database, WIDER)

    assert second == Registered("shopdb.shop.orders.v2", first.key_schema_id, 3, "shopdb.shop.orders")


def test_a_table_that_goes_back_to_an_older_shape_goes_forward_along_the_chain(database: Database) -> None:
    first = register(database, ORDERS)
    register(database, WIDER)

    again = register(database, ORDERS)

    assert again == Registered(
        "shopdb.shop.orders.v3", first.key_schema_id, first.value_schema_id, "shopdb.shop.orders.v2"
    )
    assert register(database, ORDERS) == again


def test_an_older_shape_that_fits_the_newest_topic_goes_there(database: Database) -> None:
    register(database, ORDERS)
    register(database, WIDER)

    fitting = register(database, with_columns(ID, WIDE_PRICE, NOTE))

    assert fitting.topic == "shopdb.shop.orders.v2"


def test_a_schema_must_fit_every_enabled_schema_of_the_topic(database: Database) -> None:
    nullable_number = Column("n", IntegerType(32, unsigned=False), nullable=True)
    register(database, with_columns(ID, nullable_number))
    register(database, with_columns(ID))

    other_type = register(database, with_columns(ID, replace(nullable_number, type=IntegerType(64, unsigned=False))))

    assert other_type.topic == "shopdb.shop.orders.v2"


def test_a_disabled_schema_does_not_count_and_does_not_come_back(database: Database) -> None:
    first = register(database, ORDERS)
    database.write(
        lambda session: session.execute(
            update(SubjectVersion)
            .where(SubjectVersion.schema_id == first.value_schema_id)
            .values(status=Status.DISABLED)
        )
    )

    assert register(database, WIDER).topic == "shopdb.shop.orders"
    assert register(database, ORDERS).topic == "shopdb.shop.orders.v2"


@pytest.mark.parametrize(
    "changed",
    [
        replace(ORDERS, columns=(ID, NOTE, PRICE), key=("id", "note")),
        replace(ORDERS, key=()),
        replace(ORDERS, columns=(replace(ID, type=IntegerType(32, unsigned=False)), PRICE)),
    ],
    ids=["another column", "no key", "another type"],
)
def test_another_key_opens_the_next_topic(database: Database, changed: TableSchema) -> None:
    register(database, ORDERS)

    assert register(database, changed).topic == "shopdb.shop.orders.v2"


def test_a_key_in_another_order_opens_the_next_topic(database: Database) -> None:
    both = replace(ORDERS, columns=(ID, replace(ID, name="shop")), key=("id", "shop"))
    first = register(database, both)

    second = register(database, replace(both, key=("shop", "id")))

    assert (second.topic, second.follows) == ("shopdb.shop.orders.v2", "shopdb.shop.orders")
    assert second.key_schema_id != first.key_schema_id


def test_a_longer_text_in_the_key_keeps_topic_and_key_schema(database: Database) -> None:
    code = Column("code", TextType(10, "utf8mb4"), nullable=False, declaration="varchar(10)")
    first = register(database, replace(ORDERS, columns=(code,), key=("code",)))

    longer = replace(code, type=TextType(20, "utf8mb4"), declaration="varchar(20)")
    second = register(database, replace(ORDERS, columns=(longer,), key=("code",)))

    assert (second.topic, second.key_schema_id) == (first.topic, first.key_schema_id)
    assert second.value_schema_id != first.value_schema_id


def test_personal_data_does_not_share_a_topic_with_other_data(database: Database) -> None:
    register(database, ORDERS)

    assert register(database, ORDERS, pii=True).topic == "shopdb.shop.orders.v2"


def test_a_table_without_a_key_has_no_key_schema(database: Database) -> None:
    registered = register(database, replace(ORDERS, key=()))

    assert (registered.key_schema_id, registered.value_schema_id) == (None, 1)


def test_the_same_schema_of_two_sources_has_one_id_and_two_topics(database: Database) -> None:
    here, there = register(database, ORDERS, "shopdb"), register(database, ORDERS, "freight")

    assert (here.key_schema_id, here.value_schema_id) == (there.key_schema_id, there.value_schema_id)
    assert {here.topic, there.topic} == {"shopdb.shop.orders", "freight.shop.orders"}


def test_tables_that_kafka_could_not_tell_apart_get_distinct_topics(database: Database) -> None:
    tables = [
        TableId("a_b", "t"),
        TableId("a", "b_t"),
        TableId("a.b", "t"),
        TableId("a", "größe"),
        TableId("a", "grüße"),
    ]

    topics = [register(database, replace(ORDERS, table=table)).topic for table in tables]

    assert all(is_legal(topic) for topic in topics)
    assert len({collision_name(topic) for topic in topics}) == len(topics)
    assert [register(database, replace(ORDERS, table=table)).topic for table in tables] == topics


def test_a_table_called_like_a_successor_does_not_take_its_place(database: Database) -> None:
    register(database, ORDERS)
    other = register(database, replace(ORDERS, table=TableId("shop", "orders.v2")))

    second = register(database, WIDER)

    assert other.topic == "shopdb.shop.orders.v2"
    assert second.topic.startswith("shopdb.shop.orders-")
    assert second.topic.endswith(".v2")


def test_a_subject_of_somebody_else_is_left_alone(database: Database) -> None:
    database.write(lambda session: register_version(session, "shopdb.shop.orders-value", parse_schema('"string"')).id)

    registered = register(database, ORDERS)

    assert registered.topic.startswith("shopdb.shop.orders-")


def test_why_a_topic_was_opened_is_kept(database: Database) -> None:
    register(database, with_columns(ID, Column("at", DateTimeType(0), nullable=False)))
    register(database, with_columns(ID, Column("at", IntegerType(64, unsigned=False), nullable=False)))

    opened = database.read(lambda session: read_topic(session, "shopdb.shop.orders.v2"))

    assert opened.opened_because[0] == (
        "version 1: new reads old: before.at: long/local-timestamp-micros does not mean the same as long"
    )


@given(
    namespace=st.text(min_size=1, max_size=100),
    schema=st.text(min_size=1, max_size=64),
    name=st.text(min_size=1, max_size=64),
    ordinal=st.integers(1, 10_000),
)
def test_distinct_names_are_legal_whatever_a_table_is_called(
    namespace: str, schema: str, name: str, ordinal: int
) -> None:
    table = TableId(schema, name)

    assert is_legal(plan_distinct_topic_name(namespace, table, ordinal))
    assert plan_distinct_topic_name(namespace, table, ordinal) != plan_distinct_topic_name(
        namespace, table, ordinal + 1
    )


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(st.sampled_from([ORDERS, WIDER, with_columns(ID, PRICE, NOTE), with_columns(ID)]), max_size=12))
def test_whatever_shapes_a_table_takes_its_topics_are_taken_in_order(shapes: list[TableSchema]) -> None:
    newest = 0

    with tempfile.TemporaryDirectory() as home:
        url = f"sqlite:///{home}/schematizer.db"
        begin_migrated(url)
        database = open_database(url)
        topics = [register(database, shape).topic for shape in shapes]
        database.close()

    for topic in topics:
        ordinal = 1 if topic == "shopdb.shop.orders" else int(topic.rpartition(".v")[2])
        assert ordinal in {newest, newest + 1}
        assert topic == plan_topic_name("shopdb", ORDERS.table, ordinal)
        newest = ordinal


def stands(database: Database) -> list[tuple[str, str]]:
    """The columns that the source has now, and their comments."""
    query = select(Element).where(Element.is_present).order_by(Element.position)
    return database.read(lambda session: [(each.name, each.comment) for each in session.scalars(query)])


def test_a_table_that_goes_back_on_one_topic_gets_its_columns_and_comments_back(database: Database) -> None:
    old = with_columns(ID, replace(PRICE, comment="in cents"))
    first = register(database, old)
    register(database, with_columns(ID, replace(PRICE, comment="in euros"), NOTE))
    assert stands(database) == [("id", ""), ("price", "in euros"), ("note", "")]

    again = [register(database, old) for _ in range(2)]

    assert again == [first, first]
    assert stands(database) == [("id", ""), ("price", "in cents")]


def test_facts_of_a_topic_are_kept_and_another_cluster_or_base_opens_the_next_topic(database: Database) -> None:
    def facts(said: TopicFacts = TopicFacts()) -> str:  # noqa: B008 - it never changes
        return register_table(
            AuthoredDatabase(database), shape_of_table(Registering("shopdb", facts=said), ORDERS)
        ).topic

    first = facts(TopicFacts(partitions=8, compacted=True))
    told = database.read(lambda session: read_topic(session, first))
    assert (told.partitions, told.compacted, told.cluster_type) == (8, True, "")
    assert facts() == facts(TopicFacts(cluster_type="datapipe")) == facts() == facts(TopicFacts(partitions=9)) == first
    told = database.read(lambda session: read_topic(session, first))
    assert (told.partitions, told.cluster_type) == (9, "datapipe")

    assert facts(TopicFacts(cluster_type="scribe")) == "shopdb.shop.orders.v2"
    assert facts(TopicFacts(base_schema_id=2)) == "shopdb.shop.orders.v3"

    told = database.read(lambda session: read_topic(session, "shopdb.shop.orders.v2"))
    assert (told.cluster_type, told.opened_because) == (
        "scribe",
        ["the topic is in a cluster of type datapipe, not scribe"],
    )
    with pytest.raises(RefusedError, match="Schema 99 not found"):
        facts(TopicFacts(base_schema_id=99))
