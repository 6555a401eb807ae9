"""Mistakes that only several sources in one file can have, and links that would mix their tables."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from penstock.config.column_crosschecks import find_loose_columns
from penstock.config.link_tables import one_schema, target_patterns
from penstock.core.pattern_overlap import find_common_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.config.yaml_lines import Location

Found: TypeAlias = "tuple[Location, str]"

_SERVER_IDS = 1024
_OBJECTS_LINK = "objects"
_PORT = 3306
_SINK_PORTS = {"postgres": 5432, "redshift": 5439, "snowflake": 443}


def find_source_conflicts(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Yield a location and a sentence for each mistake; parts of the wrong type are passed over in silence."""
    sources = [_mapping(source) for source in _sequence(pipeline.get("sources"))]
    yield from _trackers(pipeline, sources)
    for index, source in enumerate(sources):
        if str(source.get("name")).casefold() == _OBJECTS_LINK:
            yield ("sources", index, "name"), "is what the link is called that writes files: give it another name"
    has_transactions = _mapping(pipeline.get("kafka")).get("transactions") is not False
    for index, source in enumerate(sources):
        if source.get("cascades") == "reread" and not has_transactions:
            text = "reads rows again in Kafka's transactions, and kafka.transactions is false: write stop in its place"
            yield ("sources", index, "cascades"), text
        if source.get("replicas") and source.get("max_replica_lag_seconds") is None:
            text = "nobody looks at how far they are behind: give max_replica_lag_seconds, too, or leave them out"
            yield ("sources", index, "replicas"), text
        if source.get("large_values") == "objects":
            yield from _large_values(("sources", index), source, has_transactions=has_transactions)
    if len(sources) > 1 and not has_transactions:
        text = "without transactions a pipeline has one source: leave it out, or write another file for each source"
        yield ("kafka", "transactions"), text
    for (first, one), (second, other) in combinations(enumerate(sources), 2):
        yield from _alike(("sources", second), one, other, f"sources[{first}]")
    yield from _link_schemas(pipeline)
    yield from _loose_columns(pipeline)
    yield from _same_tables(pipeline)


def _large_values(where: Location, source: Mapping[str, object], *, has_transactions: bool) -> Iterator[Found]:
    """Readers of JSON would take what stands for a message for one; without transactions messages must come again."""
    if source.get("format") == "json":
        text = "is for topics in Avro, and the source's format is json: write stop in its place"
        yield (*where, "large_values"), text
    if not has_transactions:
        text = "takes Kafka's transactions, and kafka.transactions is false: write stop in its place"
        yield (*where, "large_values"), text


def _trackers(pipeline: Mapping[str, object], sources: Sequence[Mapping[str, object]]) -> Iterator[Found]:
    """A tracker holds the tables of one source; those of a second one would mix with them."""
    if pipeline.get("tracker"):
        if len([source for source in sources if source.get("kind") != "postgres"]) > 1:
            text = "belongs to one source, and there are several: give each of the sources a `tracker` of its own"
            yield ("tracker",), f"{text}, or leave it out to have private ones"
        elif any(source.get("tracker") for source in sources):
            yield ("tracker",), "the source has a tracker of its own; give one of the two"
    seen: set[tuple[object, object]] = set()
    for index, source in enumerate(sources):
        tracker = _mapping(source.get("tracker"))
        if "host" in tracker:
            place = (tracker["host"], tracker.get("port", _PORT))
            if place in seen:
                text = f"another source has the tracker at {place[0]}:{place[1]}, and it holds one source's tables"
                yield ("sources", index, "tracker"), f"{text}: give this one another server"
            seen.add(place)


def _alike(where: Location, one: Mapping[str, object], other: Mapping[str, object], which: str) -> Iterator[Found]:
    """What may not be the same in two sources."""
    names = [source.get("name") for source in (one, other)]
    if all(isinstance(name, str) for name in names) and names[0] != names[1]:
        first, second = map(str, names)
        if first.casefold() == second.casefold():
            yield (
                (*where, "name"),
                f'differs from "{first}" in upper and lower case only: their topics would be mixed up',
            )
    addresses = [(source.get("host"), source.get("port", _PORT)) for source in (one, other)]
    if None in addresses[0] or addresses[0] != addresses[1]:
        return
    beats = [_mapping(source.get("heartbeat")).get("table", "penstock.heartbeat") for source in (one, other)]
    if "heartbeat" in one and "heartbeat" in other and beats[0] == beats[1]:
        yield (*where, "heartbeat"), f"{which} is on the same server and has the table {beats[0]}: give another `table`"
    ids = [source.get("server_id") for source in (one, other)]
    if all(isinstance(each, int) for each in ids) and abs(int(str(ids[0])) - int(str(ids[1]))) < _SERVER_IDS:
        yield (
            (*where, "server_id"),
            f"{which} is on the same server and has {ids[0]} and the {_SERVER_IDS - 1} behind it",
        )


def _link_schemas(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Tables of two schemas with one name would become one."""
    for index, item in enumerate(_sequence(pipeline.get("links"))):
        link = _mapping(item)
        schema, source = link.get("schema"), _source_of(pipeline, link)
        if not isinstance(schema, str) or source is None:
            continue
        if schema.casefold().startswith("penstock"):
            yield (
                ("links", index, "schema"),
                "schemas that begin with penstock are for Penstock's own tables: give another",
            )
        if one_schema(_patterns(source), _patterns(link)) is None:
            text = "takes the tables of one schema of the source, written without wildcards: name it in `tables`"
            yield ("links", index, "schema"), f"{text}, for example shop.*, here or of the source"


def _loose_columns(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """A misspelled table, or one by the name that the target has for it, must not let a column through.

    Links of several sources may share one list.
    """
    sources = [_mapping(source) for source in _sequence(pipeline.get("sources"))]
    for index, item in enumerate(_sequence(pipeline.get("links"))):
        link = _mapping(item)
        own = _source_of(pipeline, link)
        if own is None:
            continue
        origin = one_schema(_patterns(own), _patterns(link)) if isinstance(link.get("schema"), str) else None
        tables = [table for each in sources if origin is None or each is not own for table in _patterns(each)]
        tables += [] if origin is None else [f"{origin}.*"]
        for key, pattern in find_loose_columns(_mapping(link.get("columns")), tables):
            text = f'"{pattern}" means no table that a source has by its `tables`, so it would hide nothing'
            yield ("links", index, "columns", key), f"{text}: name schema and table as the source does"


def _same_tables(pipeline: Mapping[str, object]) -> Iterator[Found]:
    """Rows of two sources in one table would be mixed."""
    sinks = {_mapping(sink).get("name"): _place(_mapping(sink)) for sink in _sequence(pipeline.get("sinks"))}
    links = [(index, _mapping(item)) for index, item in enumerate(_sequence(pipeline.get("links")))]
    for (_, one), (second, other) in combinations(links, 2):
        here, there = (sinks.get(link.get("to")) for link in (one, other))
        if here is None or here != there:
            continue
        if one.get("from") == other.get("from"):
            # Two links with the same ends are told elsewhere.
            if one.get("to") != other.get("to"):
                yield ("links", second, "to"), _shared(one, other)
            continue
        lists = [*_target_lists(pipeline, one), *_target_lists(pipeline, other)]
        table = find_common_table(*lists) if all(lists) else None
        if table is not None:
            text = f"{one.get('from')} and {other.get('from')} may both have a table {table} in {other.get('to')}"
            yield ("links", second), f"{text}: give this link a `schema` to put its tables in, or name other `tables`"


def _shared(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    """A target knows how far it is by pipeline and source: one link would go on where the other one is."""
    here, there, source = one.get("to"), other.get("to"), one.get("from")
    return (
        f"{there} is the same database as {here}, which has a link from {source} too, and both would keep one record "
        f"of how far they are: each would pass over tables of its own. Put all tables into one link, or give {there} "
        f"another `database`, which is filled; then type, for each table of the two links that stays in {here}: "
        f"penstock snapshot FILE TABLE --full-refresh --link {source}-to-{here}"
    )


def _place(sink: Mapping[str, object]) -> tuple[str, ...]:
    """What tells that two sinks are the same place; case does not count in names of hosts and accounts."""
    if len(sink) <= 1:
        return (str(sink.get("name")),)
    kind = str(sink.get("kind"))
    server = (str(sink.get(key)).casefold() for key in ("account", "host"))
    place = (str(sink.get(key)) for key in ("database", "path", "url"))
    return (kind, *server, str(sink.get("port", _SINK_PORTS.get(kind))), *place)


def _target_lists(pipeline: Mapping[str, object], link: Mapping[str, object]) -> Sequence[Sequence[str]]:
    source = _source_of(pipeline, link)
    if source is None:
        return [()]
    lists, schema = (_patterns(source), _patterns(link)), link.get("schema")
    if not isinstance(schema, str):
        return lists
    origin = one_schema(*lists)
    return [()] if origin is None else [target_patterns(each, origin, schema) for each in lists]


def _source_of(pipeline: Mapping[str, object], link: Mapping[str, object]) -> Mapping[str, object] | None:
    sources = (_mapping(source) for source in _sequence(pipeline.get("sources")))
    return next((source for source in sources if source.get("name") == link.get("from")), None)


def _patterns(part: Mapping[str, object]) -> Sequence[str]:
    """Its `tables`, if they are well-formed as far as it matters here; a link without any wants all."""
    given = part.get("tables", ["*.*"])
    return [each for each in _sequence(given) if isinstance(each, str) and "." in each]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
