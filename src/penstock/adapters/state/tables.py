"""The tables of the state database, every row keyed by pipeline.

Names compare byte by byte on every server (MySQL's default collations would
hold `shop.Orders` and `shop.orders` for one table), and their keys stay within
InnoDB's 3,072 bytes of four each per character. What changes here needs a
migration in `migrations/versions`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql

METADATA = MetaData()


def _name(name: str, characters_max: int) -> Column[str]:
    """Build a column of the primary key."""
    exact = mysql.VARCHAR(characters_max, charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, String(characters_max).with_variant(exact, "mysql", "mariadb"), primary_key=True)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    exact = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return Column(name, Text().with_variant(exact, "mysql", "mariadb"), nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _moment(name: str) -> Column[int]:
    """Unix milliseconds, or a count; 0 for never, and in rows that releases before this column wrote."""
    return Column(name, BigInteger, nullable=False, server_default="0")


PIPELINE_IDENTITY = Table(
    "pipeline_identity",
    METADATA,
    _name("pipeline", 64),
    _text("kafka_cluster"),
    _text("sources"),
    _integer("updated_at_ms"),
)

GLOBAL_EVENT_STATE = Table(
    "global_event_state",
    METADATA,
    _name("pipeline", 64),
    _name("source", 64),
    _text("log_file"),
    _integer("log_offset"),
    _integer("rows_from"),
    _text("gtids"),
    _integer("records_offset"),
    _integer("updated_at_ms"),
    _text("prepared", nullable=True),
    _integer("heartbeat_serial", nullable=True),
    _integer("heartbeat_timestamp_ms", nullable=True),
)

DATA_EVENT_CHECKPOINT = Table(
    "data_event_checkpoint",
    METADATA,
    _name("pipeline", 64),
    _name("source", 64),
    _name("topic_partition", 300),
    _integer("last_offset"),
    _integer("updated_at_ms"),
)

MYSQL_DUMPS = Table(
    "mysql_dumps",
    METADATA,
    _name("pipeline", 64),
    _name("source", 64),
    _text("log_file"),
    _integer("log_offset"),
    _integer("rows_from"),
    _text("gtids"),
    _text("dump"),
    _integer("updated_at_ms"),
)

LINK_PROGRESS = Table(
    "link_progress",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _text("position"),
    _text("state"),
    Column("lag_seconds", Double, nullable=True),
    _integer("lag_bytes", nullable=True),
    _integer("updated_at_ms"),
    _text("error"),
    _text("hint"),
    _integer("behind_since_ms", nullable=True),
    _integer("lag_messages", nullable=True),
    _moment("moved_at_ms"),
    _moment("running_since_ms"),
    _moment("failures"),
    _moment("failed_at_ms"),
    _text("failure", nullable=True),
    _integer("dead_letters", nullable=True),
)

LINK_SAMPLES = Table(
    "link_samples",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    _integer("at_ms"),
    _integer("carried_rows"),
    Column("lag_seconds", Double, nullable=True),
)

SERVER_CONDITION = Table(
    "server_condition",
    METADATA,
    _name("pipeline", 64),
    _name("server", 64),
    _text("state"),
    _integer("since_ms"),
    _integer("restarts"),
)

LINK_PLACE = Table(
    "link_place",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _integer("next_offset"),
    _integer("updated_at_ms"),
)

TABLE_PROGRESS = Table(
    "table_progress",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _name("table_name", 200),
    _integer("carried_rows"),
    _integer("last_timestamp_ms"),
    _integer("updated_at_ms"),
    _text("error"),
    _text("hint"),
    _integer("behind_since_ms", nullable=True),
    _moment("stopped_at_ms"),
)

PUBLISHED_RECORDS = Table(
    "published_records",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _integer("turn"),
    _text("record"),
    _text("ahead"),
    _integer("updated_at_ms"),
)

PUBLISHED_TOPICS = Table(
    "published_topics",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _name("topic", 249),
    _text("topic_id"),
    _text("ends"),
    _integer("updated_at_ms"),
)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    _name("pipeline", 64),
    _name("snapshot_id", 64),
    _text("source"),
    _text("table_name"),
    _text("options"),
    _text("wanted"),
    _text("status"),
    _integer("rows_done"),
    _integer("rows_expected", nullable=True),
    _integer("requested_at_ms"),
    _integer("started_at_ms"),
    _integer("updated_at_ms"),
    _text("error"),
    _text("hint"),
    _moment("ran_ms"),
)

AUDIT_RESULTS = Table(
    "audit_results",
    METADATA,
    _name("pipeline", 64),
    _name("audit", 160),
    _name("table_name", 200),
    Column("began_at_ms", BigInteger, primary_key=True, autoincrement=False),
    _text("state"),
    Column("score", Double, nullable=True),
    Column("lower", Double, nullable=True),
    Column("upper", Double, nullable=True),
    Column("threshold", Double, nullable=False),
    _integer("is_below"),
    _integer("partitions"),
    _integer("unequal"),
    _integer("row_count"),
    _integer("wrong_rows"),
    Column("seconds", Double, nullable=False),
    _text("why"),
    _moment("not_compared"),
)

TABLE_REQUESTS = Table(
    "table_requests",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _name("table_name", 200),
    _text("request_id"),
    _text("action"),
    _text("asked_by"),
    _text("stage"),
    _integer("asked_at_ms"),
    _integer("ended_at_ms"),
    _text("told"),
)

SKIPPED_CHANGES = Table(
    "skipped_changes",
    METADATA,
    _name("pipeline", 64),
    _name("link", 160),
    _name("topic", 249),
    Column("topic_partition", BigInteger, primary_key=True, autoincrement=False),
    Column("topic_offset", BigInteger, primary_key=True, autoincrement=False),
    _text("table_name"),
    _text("changed_row"),
    _text("reason"),
    _text("request_id"),
    _integer("skipped_at_ms"),
)

POLICE_LOOKS = Table(
    "police_looks",
    METADATA,
    _name("pipeline", 64),
    _integer("looked_at_ms"),
    _integer("topics"),
    _text("report"),
)
