"""Reading a config: what it becomes, and what is said of each mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.config.load import load, parse
from penstock.config.mysql_source import SERVER_IDS_PER_SOURCE
from penstock.config.places import (
    kafka_client_options,
    lake_endpoint,
    lake_url,
    lock_file,
    log_directory,
    objects_url,
    state_url,
)
from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec
from penstock.config.spec import known_keys
from penstock.config.specs import EMBEDDED_PARTS, PipelineSpec
from penstock.core.errors import ConfigError, UsageError
from penstock.core.mysql.log.scan import PREPARED_BYTES_MAX
from penstock.core.tables import TableId
from penstock.wiring.open import mysql_source

SOURCE = "{name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}"
SMALL = f"""\
pipeline: shop
sources:
  - {SOURCE}
sinks:
  - {{name: warehouse, kind: duckdb, path: ./warehouse.duckdb}}
links:
  - {{from: shopdb, to: warehouse}}
"""
NOT_A_PATTERN = '"shop" is not a table pattern: write schema.table, for example shop.* or !shop.audit_log'
CLUSTER = """\
kafka: {bootstrap_servers: "k:9092"}
schematizer: {url: "http://s:8081/"}
state: {url_env: STATE_URL}
tracker: {host: t, user: u, password_env: T}
objects: {url: "s3://bucket/prefix/", endpoint: "http://o:7070"}
spark: {master: "spark://m:7077", conf: {spark.executor.cores: 2, spark.speculation: false}}
"""


def read(text: str) -> PipelineSpec:
    return parse(text, "shop.yaml", Path("/etc/penstock"))


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.exit_code == 2
    return caught.value.mistakes


def test_what_is_left_out_is_embedded_under_home_beside_the_file() -> None:
    spec = read(SMALL)

    assert spec.home == Path("/etc/penstock/.penstock")
    assert all(spec.is_embedded(part) for part in EMBEDDED_PARTS)
    assert state_url(spec) == "sqlite:////etc/penstock/.penstock/state.db"
    assert objects_url(spec) == "file:///etc/penstock/.penstock/objects"
    assert lock_file(spec) == Path("/etc/penstock/.penstock/shop.lock")
    assert log_directory(spec) == Path("/etc/penstock/.penstock/logs")
    warehouse = spec.sink("warehouse")
    assert isinstance(warehouse, DuckdbSinkSpec)
    assert warehouse.path == Path("/etc/penstock/warehouse.duckdb")
    assert spec.spark.master == "local[*]"


def test_delta_tables_are_where_the_file_says_or_beside_the_objects() -> None:
    def place(text: str, more: str) -> tuple[str, str]:
        spec = read(text.replace("kind: duckdb, path: ./warehouse.duckdb", f"kind: delta{more}"))
        sink = spec.sink("warehouse")
        assert isinstance(sink, DeltaSinkSpec)
        return lake_url(spec, sink), lake_endpoint(spec, sink)

    assert place(SMALL, "") == ("file:///etc/penstock/.penstock/objects/_lakes/warehouse", "")
    assert place(SMALL, ", path: lake") == ("file:///etc/penstock/lake", "")
    assert place(SMALL, ", url: 's3://b/p/', endpoint: 'http://h'") == ("s3://b/p", "http://h")
    assert place(SMALL + CLUSTER, "")[0] == "s3://bucket/prefix/_lakes/warehouse"
    with pytest.raises(ConfigError, match=r"sinks.0.path: Spark on spark://.* cannot write into a folder"):
        place(SMALL + CLUSTER, ", path: lake")


def test_a_part_that_is_given_is_not_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_URL", "postgresql://u:p@h/d")

    spec = read(SMALL + CLUSTER)

    assert not any(spec.is_embedded(part) for part in EMBEDDED_PARTS)
    assert state_url(spec) == "postgresql://u:p@h/d"
    assert objects_url(spec) == "s3://bucket/prefix"
    assert spec.schematizer is not None
    assert spec.schematizer.url == "http://s:8081"
    assert spec.spark.conf == {"spark.executor.cores": "2", "spark.speculation": "false"}


def test_files_are_kept_at_home_unless_the_config_says_otherwise() -> None:
    by_default = read(SMALL).objects
    told = read(f"{SMALL}objects: {{format: csv, compression: gzip, batch_seconds: 30.0, keep_hours: 48.0}}\n")
    clouds = [read(f"{SMALL}objects: {{url: '{scheme}://b/p'}}\n") for scheme in ("s3", "gs", "az", "abfs")]

    assert (by_default.format, by_default.compression, by_default.batch_seconds) == ("parquet", "zstd", 0.0)
    assert told.is_embedded("objects")
    assert objects_url(told) == "file:///etc/penstock/.penstock/objects"
    assert not any(spec.is_embedded("objects") for spec in clouds)


def test_a_source_says_which_tables_it_wants() -> None:
    source = mysql_source(read(SMALL).source("shopdb"))

    assert source.patterns.matches(TableId("shop", "orders"))
    assert not source.patterns.matches(TableId("other", "orders"))
    assert (source.port, source.start, source.tail_slice_seconds) == (3306, "auto", 300.0)
    assert source.prepared_xa_mebibytes_max << 20 == PREPARED_BYTES_MAX
    assert source.publish_interval_ms is None
    assert source.backlog_tasks == 1
    assert source.snapshot_commit_seconds == 300


def test_server_ids_are_stable_and_differ_by_pipeline_and_source() -> None:
    spec = read(SMALL)
    other = read(SMALL.replace("pipeline: shop", "pipeline: shop2"))
    source = mysql_source(spec.source("shopdb"))
    renamed = source.model_copy(update={"name": "shopdb2"})
    chosen = source.model_copy(update={"server_id": 77})

    ids = [
        source.first_server_id(spec.pipeline),
        source.first_server_id(other.pipeline),
        renamed.first_server_id(spec.pipeline),
    ]

    assert ids[0] == 2497845248
    assert len(set(ids)) == 3
    assert all(2**31 <= number <= 2**32 - 1 - SERVER_IDS_PER_SOURCE for number in ids)
    assert chosen.first_server_id(spec.pipeline) == 77


def test_a_spec_travels_to_executors() -> None:
    spec = read(SMALL + CLUSTER)

    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    text = """\
pipeline: shop
colour: red
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, pasword_env: X, tables: [shop]}
  - name: shopdb
    kind: mysql
    host: h
    port: 99999
    user: cdc
    password_env: X
    tables: shop.*
links:
  - {from: shopdb, to: nowhere}
"""

    assert mistakes(text) == (
        "line 2: colour: unknown key (known here: " + ", ".join(known_keys(PipelineSpec)) + ")",
        "line 4: sources.0: missing key password_env",
        f"line 4: sources.0.tables.0: {NOT_A_PATTERN}",
        "line 4: sources.0.pasword_env: unknown key (did you mean password_env?)",
        'line 5: sources.1.name: another of the sources has the name "shopdb" too',
        "line 8: sources.1.port: should be less than or equal to 65535",
        "line 11: sources.1.tables: should be a list",
        'line 13: links.0.to: none of the sinks is called "nowhere"',
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: the file is empty; it needs at least pipeline and sources"),
        ("# only a comment\n", "line 1: the file is empty; it needs at least pipeline and sources"),
        ("- a\n", "line 1: should be a mapping of keys to values"),
        ("pipeline: [a\nsources: b\n", "line 2: not valid YAML: expected ',' or ']', but got ':'"),
        ("pipeline: a\n\tsources: b\n", "line 2: not valid YAML: found character '\\t' that cannot start any token"),
        ("pipeline: a\x00\n", "line 1: not valid YAML: special characters are not allowed"),
        ("pipeline: a\npipeline: b\n", "line 2: pipeline: key is there twice (first on line 1)"),
        ("a: &a [*a]\n", "line 1: not valid YAML: too deep or too large, or an alias contains itself"),
        ("a: !!python/object:os.system {}\n", "line 1: a: unknown key"),
        ("pipeline: 7\n", "line 1: pipeline: should be text, in quotes"),
        ("pipeline: a b\n", "line 1: pipeline: should be a name: a letter, then letters, digits, _ and -, at most 48"),
        ("pipeline: shop\n", "line 1: missing key sources"),
        ("sources: []\n", "line 1: sources: should have at least one entry"),
        (f"sources: [{SOURCE.replace('host: h', 'host:')}]\n", "line 1: sources.0: missing key host"),
        (f"sources: [{SOURCE.replace('SHOPDB_PASSWORD', 'p@ss')}]\n", "not its value"),
        ("sources: [" + SOURCE.replace("shop.*", "'!shop.x'") + "]\n", "nothing is wanted"),
        ("sources: [{tables: [shop.*, !shop.x]}]\n", "line 1: not valid YAML: text that begins with ! needs quotes"),
        ("sources:\n- tables:\n  - !a.x\n", "line 3: sources.0.tables.0: text that begins with ! needs quotes: '!a.x'"),
        (
            f"sources: [{SOURCE[:-1]}, start: never}}]\n",
            "line 1: sources.0.start: should be 'auto', 'log' or 'snapshot'",
        ),
        (
            f"sources: [{SOURCE[:-1]}, tail_slice_seconds: 0}}]\n",
            "tail_slice_seconds: should be greater than or equal to 1",
        ),
        (
            f"sources: [{SOURCE[:-1]}, publish_interval_ms: -1}}]\n",
            "line 1: sources.0.publish_interval_ms: should be greater than or equal to 0",
        ),
        (
            f"sources: [{SOURCE[:-1]}, backlog_tasks: 0}}]\n",
            "line 1: sources.0.backlog_tasks: should be greater than or equal to 1",
        ),
        (
            f"sources: [{SOURCE[:-1]}, snapshot_commit_seconds: 601}}]\n",
            "line 1: sources.0.snapshot_commit_seconds: should be less than or equal to 600",
        ),
        (
            f"sources: [{SOURCE[:-1]}, publish_interval_ms: 10001}}]\n",
            "line 1: sources.0.publish_interval_ms: should be less than or equal to 10000",
        ),
        (
            f"sources: [{SOURCE[:-1]}, publish_interval_ms: 0.5}}]\n",
            "line 1: sources.0.publish_interval_ms: should be a whole number",
        ),
        (
            f"sources: [{SOURCE[:-1]}, publish_interval_ms: '20'}}]\n",
            "line 1: sources.0.publish_interval_ms: should be a whole number",
        ),
        ("sources: [{name: f, kind: oracle}]\n", "line 1: sources.0.kind: should be"),
        ("audits: [{where: {shop.*: a = 1}}]\n", "line 1: audits.0.where.shop.*"),
        (
            "audits: [{every: 59s}]\n",
            "line 1: audits.0.every: should be a whole number and a unit, from 60s or 1m to 90d",
        ),
        ("audits: [{source: a, sink: b}]\n", "line 1: audits.0: no link leads from a to b, so there is nothing"),
        (
            "sinks: [{name: f, kind: snowflake, account: a, user: u, database: d, warehouse: w}]\n",
            "line 1: sinks.0: give either password_env or private_key_file",
        ),
        ("lock: {zookeeper: z}\n", "line 1: lock.zookeeper: should be host:port, or several of them"),
        ("lock: {zookeeper: 'z:1/a/'}\n", "line 1: lock.zookeeper: should end with a path like /some/path"),
        ("lock: {zookeeper: 'z:1/a/../b'}\n", "line 1: lock.zookeeper: should end with a path like /some/path"),
        ("lock: {zookeeper: 'z:1', session_seconds: 0.5}\n", "line 1: lock.session_seconds: "),
        ("lock: {session_seconds: 5}\n", "line 1: lock.session_seconds: a lock that is a file has no session"),
        ("state: {url: 'mysql://u:secret@h/d'}\n", "line 1: state.url: holds a password"),
        ("state: {url: 'oracle://h/d'}\n", "line 1: state.url: should be a database URL"),
        ("state: {url: 'sqlite:///a', url_env: B}\n", "line 1: state.url_env: give url or url_env, not both"),
        ("schematizer: {url: h:8081}\n", "line 1: schematizer.url: should be a URL that begins with http:// or"),
        (
            "objects: {format: parquet, compression: gzip}\n",
            "line 1: objects.compression: Parquet files are compressed with zstd; leave it out, or set format: csv",
        ),
        (
            "objects: {endpoint: 'http://o:7070'}\n",
            "line 1: objects.endpoint: a directory has no endpoint; leave it out, or give the url of a bucket",
        ),
        ("objects: {batch_rows: 5}\n", "line 1: objects.batch_rows: unknown key (did you mean batch_rows_max?)"),
        (
            "objects: {keep_hours: -1}\n",
            "line 1: objects.keep_hours: should be a number from 0 to 876000, or forever",
        ),
        (
            "objects: {url: /data}\n",
            "line 1: objects.url: should be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///directory",
        ),
        ("kafka: {bootstrap_servers: k}\n", "line 1: kafka.bootstrap_servers: should be host:port"),
        ("kafka: {replication: 3}\n", "line 1: kafka.replication: the embedded broker is alone"),
        ('schematizer: {url: "http://me:hush@h:1"}\n', "line 1: schematizer.url: holds a password: leave user and"),
        ('schematizer: {url: "http://h:1", user: u}\n', "line 1: schematizer: a user signs in with a password"),
        ('schematizer: {url: "https://h:1", user: u, password_env: A, token_env: B}\n', "not both"),
        ('schematizer: {url: "http://h:1", ca_file: ca.pem}\n', "line 1: schematizer.ca_file: is of no use with http"),
        ("kafka: {bootstrap_servers: 'k:1', security: {protocol: SASL_SSL}}\n", "SASL_SSL needs user and password_env"),
        ("spark: {master: sparky}\n", "line 1: spark.master: should be local[*]"),
        ("sinks: [{name: a, kind: duckdb, path: x}, {name: b, kind: duckdb, path: x}]\n", 'sinks has the path "x" too'),
        ("sinks: [{name: a, kind: delta, path: x, url: file:///y}]\n", "sinks.0.url: give path or url, not both"),
        ("sinks: [{name: a, kind: delta, path: x, endpoint: 'http://h'}]\n", "endpoint: is of no use without url: s3"),
        (
            "sinks: [{name: a, kind: delta, url: http://h/x}]\n",
            "sinks.0.url: should be s3://bucket/prefix, gs://bucket/prefix",
        ),
        ("sinks: [{name: a, kind: redshift}]\n", "sinks.0.kind: Redshift loads files from S3: give objects.url"),
        (
            "sinks: [{name: a, kind: redshift, tables: [{match: [a.b], distkey: c, distribution: all}]}]\n",
            "sinks.0.tables.0.distribution: give distribution or distkey, not both",
        ),
        (
            "sinks: [{name: a, kind: redshift, tables: [{match: [a.b], interleaved: true}]}]\n",
            "sinks.0.tables.0.interleaved: is of no use without sortkey",
        ),
        (
            "sinks: [{name: a, kind: redshift, tables: [{match: [a.b], encode: {c: 'zstd, x'}}]}]\n",
            "sinks.0.tables.0.encode.c",
        ),
        ("links: [{from: a, to: b}, {from: a, to: b}]\n", "line 1: links.1: there is a link from a to b already"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, expected: str) -> None:
    assert any(mistake.startswith(expected) or expected in mistake for mistake in mistakes(text))


def test_a_password_in_a_url_is_not_repeated() -> None:
    told = "\n".join(mistakes("state: {url: 'mysql://u:secret@h/d'}\n"))

    assert "secret" not in told


def test_a_cluster_needs_every_part_by_url() -> None:
    told = mistakes(SMALL + 'spark: {master: "spark://m:7077"}\n')

    assert len(told) == len(EMBEDDED_PARTS)
    for part in EMBEDDED_PARTS:
        assert any(f"spark://m:7077 cannot reach the embedded {part}: give {part}." in mistake for mistake in told)


def test_a_misspelled_key_hides_no_other_mistake() -> None:
    told = mistakes(SMALL.replace("host: h", "hots: h").replace("to: warehouse", "to: warehuose"))

    assert any("unknown key (did you mean host?)" in mistake for mistake in told)
    assert any('none of the sinks is called "warehuose"' in mistake for mistake in told)


def test_many_aliases_of_aliases_do_not_fill_the_memory() -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))

    assert any("too deep or too large" in mistake for mistake in mistakes(f"a0: &a0 [x]\n{layers}"))


def test_anchors_and_merges_work() -> None:
    text = SMALL.replace("  - {name: warehouse", "  - &w {name: warehouse").replace(
        "links:", "  - {<<: *w, name: second, path: ./second.duckdb}\nlinks:"
    )

    assert read(text).sink("second").kind == "duckdb"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*nope\.yaml"):
        load(tmp_path / "nope.yaml")


def test_a_directory_and_other_bytes_than_utf8_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"pipeline: caf\xe9\n")

    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        load(tmp_path / "latin.yaml")


def test_paths_are_relative_to_the_file_not_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "shop.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)

    spec = load(Path("configs/shop.yaml"))

    assert spec.home == tmp_path / "configs" / ".penstock"


def test_a_secret_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATE_URL", raising=False)

    with pytest.raises(UsageError, match="the environment variable STATE_URL is not set"):
        state_url(read(SMALL + CLUSTER))


def test_kafka_is_logged_in_to_with_the_secret_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hush")
    security = "{protocol: SASL_SSL, user: u, password_env: KAFKA_PASSWORD, ca_file: ca.pem}"

    options = kafka_client_options(read(f"{SMALL}kafka: {{bootstrap_servers: 'k:9', security: {security}}}\n"))

    assert options == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/etc/penstock/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "hush",
    }


def test_an_open_broker_needs_no_options() -> None:
    assert kafka_client_options(read(SMALL)) == {}


def test_soft_deletes_need_whole_rows() -> None:
    text = SMALL.replace("tables: [shop.*]}", "tables: [shop.*], row_images: partial}")
    soft = text.replace("to: warehouse}", "to: warehouse, deletes: soft}")

    with pytest.raises(ConfigError) as refused:
        read(soft)

    assert 'soft needs whole rows, and "shopdb" has row_images: partial: say hard' in str(refused.value)
    assert read(text).links[0].deletes == "hard"
