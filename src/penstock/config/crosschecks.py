"""Mistakes that only show when several keys are seen together.

They are looked for in the file as written, not in the finished spec: one
misspelled key must not hide that a link leads nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.config.join_steps import steps_of
from penstock.config.joins import JoinSpec
from penstock.config.source_crosschecks import find_source_conflicts
from penstock.core.audit.conditions import parse_condition
from penstock.core.errors import UsageError
from penstock.core.warehouse.micro_batches import NEWS, READ_ALL, SPREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.config.yaml_lines import Location

_SQL = frozenset({"mysql", "postgres"})
"""Kinds of source, which are called as their SQL is."""

Found: TypeAlias = "tuple[Location, str]"


def find_conflicts(document: object) -> Iterator[Found]:
    """Yield a location and a sentence for each mistake; parts of the wrong type are passed over in silence."""
    pipeline = _mapping(document)
    yield from find_source_conflicts(pipeline)
    yield from _repeated(pipeline, "sources", "name")
    yield from _repeated(pipeline, "sinks", "name")
    yield from _repeated(pipeline, "sinks", "path")
    yield from _repeated(pipeline, "sinks", "url")
    yield from _loose_links(pipeline)
    yield from _repeated_joins(pipeline)
    yield from _loose_audits(pipeline)
    yield from _conditions_of_audits(pipeline)
    yield from _soft_deletes_of_partial_rows(pipeline)
    yield from _kafka_conflicts(_mapping(pipeline.get("kafka")))
    yield from _state_conflicts(_mapping(pipeline.get("state")))
    yield from _schematizer_conflicts(_mapping(pipeline.get("schematizer")))
    yield from _lock_conflicts(_mapping(pipeline.get("lock")))
    yield from _objects_conflicts(_mapping(pipeline.get("objects")))
    yield from _tls_conflicts(("tracker",), _mapping(pipeline.get("tracker")))
    for index, source in enumerate(_sequence(pipeline.get("sources"))):
        yield from _tls_conflicts(("sources", index), _mapping(source))
        yield from _tls_conflicts(("sources", index, "tracker"), _mapping(_mapping(source).get("tracker")))
    for index, sink in enumerate(_sequence(pipeline.get("sinks"))):
        yield from _tls_conflicts(("sinks", index), _mapping(sink))
        yield from _delta_conflicts(("sinks", index), _mapping(sink))
    yield from _empty_keys(pipeline)
    yield from _spread_change_logs(pipeline)
    yield from _redshift_conflicts(pipeline)
    yield from _shared_task_names(pipeline)
    yield from _embedded_on_cluster(pipeline)


def _empty_keys(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Elsewhere a key without a value is as if left out. Here that would be less care than somebody meant to take."""
    for index, source in enumerate(_sequence(pipeline.get("sources"))):
        if _is_empty(source, "heartbeat"):
            yield ("sources", index, "heartbeat"), "says nothing: write heartbeat: {} to have one, or leave it out"
    if _is_empty(pipeline.get("web"), "actions"):
        yield ("web", "actions"), "says nothing: write false for nobody to act on the page, or leave it out"
    if _is_empty(pipeline.get("web"), "users"):
        yield ("web", "users"), "says nothing: name the file of the users, or leave it out"
    for index, link in enumerate(_sequence(pipeline.get("links"))):
        if _is_empty(link, "columns"):
            yield ("links", index, "columns"), "says nothing, so it would hide nothing: name columns, or leave it out"
        for key in ("drop", "hash", "mask"):
            if _is_empty(_mapping(link).get("columns"), key):
                where: Location = ("links", index, "columns", key)
                yield where, "says nothing, so it would hide nothing: name columns, or leave it out"


def _is_empty(part: object, key: str) -> bool:
    """Whether `part` has `key` without a value."""
    return key in _mapping(part) and _mapping(part)[key] is None


def _repeated(pipeline: Mapping[str, object], section: str, key: str) -> Iterator[Found]:
    seen: set[object] = set()
    for index, item in enumerate(_sequence(pipeline.get(section))):
        value = _mapping(item).get(key)
        if isinstance(value, str) and value in seen:
            yield (section, index, key), f'another of the {section} has the {key} "{value}" too'
        if isinstance(value, str):
            seen.add(value)


def _loose_links(pipeline: Mapping[str, object]) -> Iterator[Found]:
    seen: set[tuple[object, object]] = set()
    for index, item in enumerate(_sequence(pipeline.get("links"))):
        link = _mapping(item)
        for key, section in (("from", "sources"), ("to", "sinks")):
            names = [_mapping(end).get("name") for end in _sequence(pipeline.get(section))]
            names += _join_names(pipeline) if key == "from" else []
            if isinstance(link.get(key), str) and link[key] not in names:
                yield ("links", index, key), f'none of the {section} is called "{link[key]}"'
        ends = (link.get("from"), link.get("to"))
        if all(isinstance(end, str) for end in ends):
            if ends in seen:
                yield ("links", index), f"there is a link from {ends[0]} to {ends[1]} already; put all tables into one"
            seen.add(ends)


def _join_names(pipeline: Mapping[str, object]) -> list[object]:
    """What a link can read besides sources."""
    return [join.name for join in _sequence(pipeline.get("joins")) if isinstance(join, JoinSpec)]


def _repeated_joins(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Joins are links, and what the Schematizer and sinks take for a source: their names are theirs alone."""
    taken: dict[object, str] = {"objects": "the link that writes files"}
    if _sequence(pipeline.get("joins")) and _mapping(pipeline.get("kafka")).get("transactions") is False:
        yield ("joins",), "publish in Kafka's transactions: leave kafka.transactions out, or leave them out"
    spark = _mapping(pipeline.get("spark"))
    master = str(spark.get("master", "local"))
    if _sequence(pipeline.get("joins")) and not (master.startswith("local") or spark.get("shared_home") is True):
        text = (
            f"keep their state below home, where workers of Spark on {master} must write: put home into a folder "
            "that all of them have at the same path, and say spark.shared_home: true"
        )
        yield ("joins",), text
    for section, what in (("sources", "a source"), ("spolts", "a spolt")):
        taken |= {_mapping(each).get("name"): what for each in _sequence(pipeline.get(section))}
    for index, join in enumerate(_sequence(pipeline.get("joins"))):
        for name in (step.name for step in steps_of(join)) if isinstance(join, JoinSpec) else ():
            if name in taken:
                yield ("joins", index), f'{taken[name]} is called "{name}" too: give its output another source'
            taken[name] = "another join"


def _loose_audits(pipeline: Mapping[str, object]) -> Iterator[Found]:
    links = [(_mapping(link).get("from"), _mapping(link).get("to")) for link in _sequence(pipeline.get("links"))]
    for index, item in enumerate(_sequence(pipeline.get("audits"))):
        ends = (_mapping(item).get("source"), _mapping(item).get("sink"))
        if all(isinstance(end, str) for end in ends) and ends not in links:
            yield ("audits", index), f"no link leads from {ends[0]} to {ends[1]}, so there is nothing to compare"
        if ends[0] in _join_names(pipeline):
            text = (
                f"is a join, and an audit compares the tables of a source: type penstock joinery verify FILE {ends[0]}"
            )
            yield ("audits", index, "source"), text
        if "replica" in _mapping(item) and _mapping(item)["replica"] is None:
            # Elsewhere a key without a value is as if left out. Here that would cost the source what it should not.
            yield ("audits", index, "replica"), "says nothing: write replica: {host: ...}, or leave it out"


def _conditions_of_audits(pipeline: Mapping[str, object]) -> Iterator[Found]:
    sources = [_mapping(source) for source in _sequence(pipeline.get("sources"))]
    kinds = {source.get("name"): source.get("kind") for source in sources}
    for index, item in enumerate(_sequence(pipeline.get("audits"))):
        kind = kinds.get(_mapping(item).get("source"))
        for table, condition in _mapping(_mapping(item).get("where")).items():
            if isinstance(condition, str) and isinstance(kind, str) and kind in _SQL:
                try:
                    parse_condition(condition, kind)
                except UsageError as error:
                    yield ("audits", index, "where", str(table)), f"{error.message}; {error.hint}"


def _soft_deletes_of_partial_rows(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """A delete that is logged as a key alone says nothing of the row that is to be kept."""
    sources = [_mapping(source) for source in _sequence(pipeline.get("sources"))]
    partial = {s.get("name"): "has row_images: partial" for s in sources if s.get("row_images") == "partial"}
    partial |= {s.get("name"): "logs deletes as keys alone" for s in sources if s.get("kind") == "postgres"}
    for index, item in enumerate(_sequence(pipeline.get("links"))):
        link = _mapping(item)
        if link.get("deletes") == "soft" and link.get("from") in partial:
            text = f'soft needs whole rows, and "{link["from"]}" {partial[link["from"]]}: say hard'
            yield ("links", index, "deletes"), text


def _kafka_conflicts(kafka: Mapping[str, object]) -> Iterator[Found]:
    security = _mapping(kafka.get("security"))
    protocol = security.get("protocol", "PLAINTEXT")
    if not kafka.get("bootstrap_servers"):
        if isinstance(kafka.get("replication"), int) and kafka["replication"] != 1:
            yield ("kafka", "replication"), "the embedded broker is alone; leave it out or name bootstrap_servers"
        if security:
            yield ("kafka", "security"), "the embedded broker has no logins; leave it out or name bootstrap_servers"
    elif (
        isinstance(protocol, str)
        and protocol.startswith("SASL")
        and not (security.get("user") and security.get("password_env"))
    ):
        yield ("kafka", "security"), f"{protocol} needs user and password_env"


def _state_conflicts(state: Mapping[str, object]) -> Iterator[Found]:
    if state.get("url") and state.get("url_env"):
        yield ("state", "url_env"), "give url or url_env, not both"


def _schematizer_conflicts(schematizer: Mapping[str, object]) -> Iterator[Found]:
    user, password, token = (schematizer.get(key) for key in ("user", "password_env", "token_env"))
    if bool(user) != bool(password):
        yield ("schematizer",), "a user signs in with a password: give user and password_env, or neither"
    if token and (user or password):
        yield ("schematizer", "token_env"), "give user and password_env, or token_env, not both"
    url = schematizer.get("url")
    if schematizer.get("ca_file") and isinstance(url, str) and url.startswith("http://"):
        yield ("schematizer", "ca_file"), "is of no use with http://: write https:// where the Schematizer has TLS"


def _lock_conflicts(lock: Mapping[str, object]) -> Iterator[Found]:
    if lock.get("session_seconds") is not None and not lock.get("zookeeper"):
        yield ("lock", "session_seconds"), "a lock that is a file has no session; name zookeeper, or leave it out"


def _objects_conflicts(objects: Mapping[str, object]) -> Iterator[Found]:
    url = objects.get("url")
    scheme = url.partition("://")[0] if isinstance(url, str) else "file"
    if objects.get("endpoint") and scheme == "file":
        yield ("objects", "endpoint"), "a directory has no endpoint; leave it out, or give the url of a bucket"
    if objects.get("compression") == "gzip" and objects.get("format", "parquet") == "parquet":
        yield ("objects", "compression"), "Parquet files are compressed with zstd; leave it out, or set format: csv"


def _tls_conflicts(where: Location, server: Mapping[str, object]) -> Iterator[Found]:
    if "tls" in server and server["tls"] is None:
        # Elsewhere a key without a value is as if left out. Here that would be no encryption.
        yield (*where, "tls"), "says nothing: write tls: {} to encrypt, or leave it out"
    tls = _mapping(server.get("tls"))
    if tls.get("key") and not tls.get("cert"):
        yield (*where, "tls", "key"), "the key is of no use without cert, the certificate that it belongs to"
    if tls.get("ca") and tls.get("verify") == "none":
        yield (*where, "tls", "ca"), "verify: none looks at no ca; leave one of the two out"


def _delta_conflicts(where: Location, sink: Mapping[str, object]) -> Iterator[Found]:
    if sink.get("kind") != "delta":
        return
    url = sink.get("url")
    if url and sink.get("path"):
        yield (*where, "url"), "give path or url, not both"
    for key in ("endpoint", "region"):
        if sink.get(key) and not (isinstance(url, str) and url.startswith("s3:")):
            yield (*where, key), "is of no use without url: s3://..."


def _spread_change_logs(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """A task that has no columns to read by reads a change log: its entries have no key, and go to any partition."""
    partitions = _mapping(pipeline.get("kafka")).get("partitions")
    if not isinstance(partitions, int) or partitions <= 1:
        return
    for index, sink in enumerate(_sequence(pipeline.get("sinks"))):
        if _mapping(sink).get("kind") == "snowflake":
            # Its streams are Snowflake's own, on tables with keys.
            continue
        for number, task in enumerate(_sequence(_mapping(sink).get("tasks"))):
            if NEWS in str(_mapping(task).get("sql")) and not _mapping(task).get("by"):
                yield ("sinks", index, "tasks", number, "sql"), f"{SPREAD}: {READ_ALL}"


def _shared_task_names(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Two landing zones of one pipeline in one schema: each would drop the other's tasks."""
    zones: dict[tuple[str, ...], bool] = {}
    for index, item in enumerate(_sequence(pipeline.get("sinks"))):
        sink = _mapping(item)
        if sink.get("kind") != "snowflake" or sink.get("landing") is False:
            continue
        place = tuple(str(sink.get(key, "landing")) for key in ("account", "host", "database", "landing"))
        has_tasks = bool(sink.get("tasks")) or zones.get(place, False)
        if place in zones and has_tasks:
            message = "another sink has this landing zone, and tasks are in one: give each a schema of its own"
            yield ("sinks", index, "landing"), message
        zones[place] = has_tasks


def _redshift_conflicts(pipeline: Mapping[str, object]) -> Iterator[Found]:
    url = _mapping(pipeline.get("objects")).get("url")
    for index, item in enumerate(_sequence(pipeline.get("sinks"))):
        sink = _mapping(item)
        if sink.get("kind") != "redshift":
            continue
        if not (isinstance(url, str) and url.startswith("s3://")):
            yield ("sinks", index, "kind"), "Redshift loads files from S3: give objects.url, s3://bucket/prefix"
        for number, table in enumerate(_sequence(sink.get("tables"))):
            where = ("sinks", index, "tables", number)
            if _mapping(table).get("distkey") and _mapping(table).get("distribution") is not None:
                yield (*where, "distribution"), "give distribution or distkey, not both"
            if _mapping(table).get("interleaved") and not _mapping(table).get("sortkey"):
                yield (*where, "interleaved"), "is of no use without sortkey"


def _embedded_on_cluster(pipeline: Mapping[str, object]) -> Iterator[Found]:
    master = _mapping(pipeline.get("spark")).get("master", "local[*]")
    if not isinstance(master, str) or master.startswith("local"):
        return
    for part, keys in (
        ("kafka", ("bootstrap_servers",)),
        ("schematizer", ("url",)),
        ("state", ("url", "url_env")),
        ("objects", ("url",)),
    ):
        if not any(_mapping(pipeline.get(part)).get(key) for key in keys):
            text = f"Spark on {master} cannot reach the embedded {part}: give {part}.{' or '.join(keys)}"
            yield ("spark", "master"), text
    listed = [_mapping(source) for source in _sequence(pipeline.get("sources"))]
    sources = [source for source in listed if source.get("kind") != "postgres"]
    if not pipeline.get("tracker") and not all(source.get("tracker") for source in sources):
        of_source = "sources[].tracker" if len(sources) > 1 else "tracker.host"
        yield ("spark", "master"), f"Spark on {master} cannot reach the embedded tracker: give {of_source}"
    for index, sink in enumerate(_sequence(pipeline.get("sinks"))):
        if _mapping(sink).get("kind") == "delta" and _mapping(sink).get("path"):
            text = f"Spark on {master} cannot write into a folder of this machine: give url, or leave path out"
            yield ("sinks", index, "path"), text


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
