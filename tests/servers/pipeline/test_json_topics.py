"""`format: json`: flat messages in a topic per table, which links read as they read Avro, and anybody else, too."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join, join_in_source

from penstock.core.errors import UsageError
from penstock.core.schema_changes import SchemaChange
from penstock.wiring.open import open_topic_log, schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase
    from tests.servers.postgres_chain import PostgresChain

    from penstock.config.specs import PipelineSpec

    Row = dict[str, Any]

_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"
_TYPES = (
    "id BIGINT PRIMARY KEY, name VARCHAR(40), price DECIMAL(30, 8), at TIMESTAMP(6) NULL, raw VARBINARY(20), f DOUBLE"
)
_FIRST = (
    f"CREATE TABLE items ({_TYPES})",
    "INSERT INTO items VALUES (1, 'one', 1.5, '2024-02-29 10:00:00.25', x'00ff', 0.1)",
    "INSERT INTO items (id) VALUES (2)",
    f"INSERT INTO items VALUES ({2**53 + 1}, 'large', 1234567890123456789012.12345678, NULL, '', -1e300)",
    "CREATE TABLE log_lines (line VARCHAR(20), n INT)",
    "INSERT INTO log_lines VALUES ('a', 1), ('b', 2)",
)
_LATER = (
    "UPDATE items SET price = price * 2 WHERE id = 1",
    "INSERT INTO items VALUES (3, 'three', 3, NULL, NULL, 3), (4, 'four', 4, NULL, NULL, 4)",
    "DELETE FROM items WHERE id = 4",
    "UPDATE items SET id = 30 WHERE id = 3",
    "ALTER TABLE items DROP COLUMN f",
    "ALTER TABLE items ADD COLUMN more INT NOT NULL DEFAULT 7",
    "INSERT INTO items VALUES (5, 'five', 5, NULL, NULL, 50)",
    "DELETE FROM items WHERE id = 5",
    "INSERT INTO items VALUES (5, 'again', 6, NULL, NULL, 60)",
    "CREATE TABLE made (a INT, b VARCHAR(5), v TEXT, PRIMARY KEY (b, a))",
    "INSERT INTO made VALUES (1, 'x', 'é \\\\ \"q\"'), (2, 'y', NULL)",
    "UPDATE log_lines SET n = 20 WHERE line = 'b'",
)


def topic_messages(spec: PipelineSpec) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values of the messages of each table, by its name, in the order of each partition."""
    found: dict[str, list[tuple[bytes | None, bytes | None]]] = {}
    schemas = schema_changes_topic(spec)
    with closing(open_topic_log(spec)) as log:
        end = log.ends([(schemas, 0)])[schemas, 0]
        told = [SchemaChange.from_json(value) for part in log.read(schemas, 0, 0, end) for _, value in part]
        for topic, change in {change.topic: change for change in told}.items():
            assert change.format == "json"
            ends = log.ends([(topic, number) for number in range(change.partitions)])
            scanned = log.scan({place: (0, stop) for place, stop in ends.items()})
            found[change.table.name] = [(key, value) for _, _, key, value in scanned]
    return found


def folded(messages: list[tuple[bytes | None, bytes | None]]) -> dict[str, Row]:
    """The rows that are left when each key has its newest message, as any reader of JSON makes them.

    What a message says that it lacks is what the row had before.
    """
    rows: dict[str, Row] = {}
    for key, value in messages:
        assert key is not None
        if value is None:
            rows.pop(key.decode(), None)
            continue
        message = json.loads(value)
        if message["__penstock_op"] == "d":
            # Its tombstone comes next; until then a reader sees the row as it was.
            continue
        before = rows.get(key.decode(), {})
        kept = {name: before[name] for name in message.get("__penstock_lacks", ())}
        own = {name: value for name, value in message.items() if not name.startswith("__penstock_")}
        rows[key.decode()] = kept | own
    return rows


def test_tables_of_mariadb_end_equal_to_the_source(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2, format="json")
    case.write(*_FIRST)
    case.run_once()
    case.write(*_LATER)
    case.run_once()

    assert case.notes() == {}
    assert set(case.compare()) == {"items", "log_lines", "made"}
    case.assert_equal()
    assert len(case.query(f"SELECT * FROM {case.database}.log_lines")) == 4
    messages = topic_messages(case.spec)
    items = folded(messages["items"])
    assert sorted(items) == sorted(
        ['{"id":1}', '{"id":2}', '{"id":30}', '{"id":5}', f'{{"id":"{2**53 + 1}"}}'],
    )
    assert items['{"id":1}']["price"] == "3.00000000"
    assert items['{"id":5}']["more"] == 60
    deleted = [value for key, value in messages["items"] if key == b'{"id":4}']
    assert [value is None for value in deleted] == [False, False, True]
    assert {key for key, _ in messages["log_lines"]} == {None}


@pytest.mark.nightly
def test_spark_carries_them_too(make_case: Callable[..., PipelineCase], spark: SparkSession) -> None:
    del spark
    test_tables_of_mariadb_end_equal_to_the_source(make_case)


@pytest.mark.nightly
def test_tables_of_postgresql_end_equal_to_the_source(make_postgres: Callable[..., PostgresChain]) -> None:
    columns = "id int PRIMARY KEY, name text, price numeric, at timestamptz, tags jsonb, f float8, note text"
    chain = make_postgres(
        f"CREATE TABLE items ({columns})",
        "ALTER TABLE items ALTER note SET STORAGE EXTERNAL",
        f"INSERT INTO items SELECT i, 'n' || i, i + 0.5, now(), '{{\"a\": 1.10}}', 'NaN', {_LARGE} "
        "FROM generate_series(1, 20) i",
        "CREATE TABLE bare (a int, b text)",
        "ALTER TABLE bare REPLICA IDENTITY FULL",
        "INSERT INTO bare VALUES (1, 'x')",
        more="    format: json",
    )
    chain.carry()
    chain.write("UPDATE items SET price = price * 2 WHERE id = 7", "DELETE FROM items WHERE id <= 5")
    chain.write_together(
        "INSERT INTO items VALUES (100, 'new', 'NaN', NULL, NULL, '-Infinity', NULL)",
        "ALTER TABLE items ADD COLUMN c int DEFAULT 5",
        "UPDATE items SET id = 200, note = 'whole' WHERE id = 8",
        "CREATE TABLE made (id bigint PRIMARY KEY, ok boolean NOT NULL)",
        "INSERT INTO made VALUES (1, true), (2, false)",
    )
    chain.write("TRUNCATE made", "INSERT INTO made VALUES (3, true)", "INSERT INTO bare VALUES (2, 'y')")
    chain.carry()

    assert chain.stopped() == {}
    source, warehouse = chain.both("SELECT id, name, note, c FROM public.items ORDER BY id")
    assert warehouse == source
    assert chain.rows("SELECT id FROM public.made") == [(3,)]
    assert chain.rows("SELECT a, b FROM public.bare ORDER BY a") == [(1, "x"), (2, "y")]
    messages = topic_messages(chain.spec)
    unchanged = [json.loads(value) for key, value in messages["items"] if key == b'{"id":7}' and value][-1]
    assert unchanged["__penstock_lacks"] == ["note"]
    assert "note" not in unchanged
    assert "/" in unchanged["__penstock_position"]
    assert ":" in unchanged["__penstock_transaction"]
    rows = folded(messages["items"])
    assert [(row["id"], row["name"], row["note"], row.get("c", 5)) for _, row in sorted(rows.items(), key=_by_id)] == [
        tuple(row) for row in source
    ]


def _by_id(entry: tuple[str, Row]) -> int:
    return int(entry[1]["id"])


@pytest.mark.nightly
def test_a_format_that_is_changed_later_is_refused(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    chain.carry()
    chain.write("INSERT INTO t VALUES (2)")
    text = chain.file.read_text()
    chain.file.write_text(text.replace("    kind: postgres\n", "    kind: postgres\n    format: json\n"))

    with pytest.raises(UsageError, match="have avro messages, and its format is now json") as raised:
        chain.carry()

    assert "set format: avro again" in raised.value.hint


_CODE = """\
from penstock.spolts import Output

def names(message):
    if message.value is not None and message.value["__penstock_op"] != "d":
        yield Output({"id": message.key["id"], "name": message.value["name"]}, key=str(message.key["id"]))
"""
_SCHEMA = """\
{"type": "record", "name": "Named", "fields": [
  {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}
"""


@pytest.mark.nightly
def test_a_spolt_gets_the_flat_messages_of_a_table(
    make_postgres: Callable[..., PostgresChain], tmp_path: Path, fresh_name: str
) -> None:
    module = f"code_{fresh_name}"
    (tmp_path / f"{module}.py").write_text(_CODE)
    (tmp_path / "named.avsc").write_text(_SCHEMA)
    chain = make_postgres(
        "CREATE TABLE t (id int PRIMARY KEY, name text)",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        more=f"""\
    format: json
spolts:
  - name: named
    function: {module}:names
    from: src_{fresh_name}.public.t
    to: {{topic: {fresh_name}.named, schema: named.avsc}}""",
    )
    chain.carry()
    chain.write("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 'c')")
    chain.carry()

    with closing(open_topic_log(chain.spec)) as log:
        place = (f"{fresh_name}.named", 0)
        keys = [key for _, _, key, _ in log.scan({place: (0, log.ends([place])[place])})]
    assert keys == [b"1", b"2", b"3"]


@pytest.mark.nightly
def test_a_join_of_such_topics_is_that_of_the_sources_tables(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2, format="json")
    add_join(case.file, case.database)
    case.write(
        BUSINESSES,
        REVIEWS,
        "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn'), (3, 'three', NULL)",
        "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, 2, 3.0, '')",
    )
    case.run_once()
    case.write(
        "UPDATE business SET city = 'Berlin' WHERE business_id = 1",
        "DELETE FROM user_review WHERE review_id = 12",
        "DELETE FROM business WHERE business_id = 3",
    )
    case.run_once()

    with closing(case.connect()) as connection:
        expected = join_in_source(connection)
    name = case.spec.joins[0].name
    found = case.query(f"SELECT biz_id, stars, city, review_id FROM joined.{name} ORDER BY review_id")
    assert expected
    assert [tuple(row.values()) for row in found] == expected
