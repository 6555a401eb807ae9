"""Mistakes of spolts that only show when several keys, or files beside the config, are seen together."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.patterns import TablePatterns
from penstock.core.spolts.avro_records import AvroRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.config.yaml_lines import Location

    Found: TypeAlias = tuple[Location, str]


def find_spolt_conflicts(document: Mapping[str, object], directory: Path) -> Iterator[Found]:
    """Yield a location and a sentence for each mistake; parts of the wrong type are passed over in silence.

    Paths are relative to `directory`. Looks for files of user code, and runs none.
    """
    spolts = [_mapping(each) for each in _list(document.get("spolts"))]
    if spolts and _mapping(document.get("kafka")).get("transactions") is False:
        yield ("spolts",), "publish in Kafka's transactions: leave kafka.transactions out, or leave them out"
    yield from _names(document, spolts)
    yield from _circles(spolts)
    described = [_mapping(each) for each in _list(document.get("sources"))]
    sources = [each.get("name") for each in described]
    in_json = [each.get("name") for each in described if each.get("format") == "json"]
    for index, spolt in enumerate(spolts):
        where = ("spolts", index)
        yield from _inputs(where, spolt, sources)
        yield from _outputs(where, spolt, sources, directory)
        yield from _transforms(where, spolt)
        yield from _transforms_of_json(where, spolt, in_json)
        yield from _function(where, spolt, directory)


def _transforms(where: Location, spolt: Mapping[str, object]) -> Iterator[Found]:
    """A spolt has a function, or transforms, which write changes of tables with the tables' own keys and schemas."""
    if not spolt.get("transforms"):
        if "function" not in spolt:
            yield where, "missing key function, or transforms"
        if "on_emptied" in spolt:
            yield (*where, "on_emptied"), "is for transforms: code of your own gets no such events, leave it out"
        return
    for key in ("function", "options", "path"):
        if key in spolt:
            yield (*where, key), "is for code of your own, and this spolt has transforms: leave one of the two out"
    for index, entry in enumerate(_list(spolt.get("from")) or [spolt.get("from")]):
        if _mapping(entry).get("format", "avro") != "avro":
            yield (*where, "from", index, "format"), "transforms are for changes of tables: use a function instead"
    outputs = _list(spolt.get("to")) or [spolt.get("to")]
    if len(outputs) > 1:
        yield (*where, "to"), "transforms write to one topic; use a spolt for each"
    for key in {"schema", "key"} & _mapping(outputs[0]).keys():
        yield (*where, "to", 0, key), "transforms set the schema and the key themselves: leave it out"


def _transforms_of_json(where: Location, spolt: Mapping[str, object], in_json: Sequence[object]) -> Iterator[Found]:
    """Transforms write what they read, in envelopes; code of a user's own gets the flat messages."""
    if not spolt.get("transforms"):
        return
    for index, entry in enumerate(_list(spolt.get("from")) or [spolt.get("from")]):
        topic = entry if isinstance(entry, str) else _mapping(entry).get("topic")
        source = topic.partition(".")[0] if isinstance(topic, str) else None
        if source in in_json:
            text = f"transforms need format: avro, and {source} has format: json: use a function instead"
            yield (*where, "from", index), text


def _names(document: Mapping[str, object], spolts: Sequence[Mapping[str, object]]) -> Iterator[Found]:
    """Spolts are links, and links of one pipeline are told apart by their names."""
    taken = {"objects": "the link that writes files"}
    taken |= {str(_mapping(each).get("name")): "a source" for each in _list(document.get("sources"))}
    for link in map(_mapping, _list(document.get("links"))):
        taken[f"{link.get('from')}-to-{link.get('to')}"] = "a link"
    for index, spolt in enumerate(spolts):
        name = spolt.get("name")
        if isinstance(name, str):
            if name in taken:
                yield ("spolts", index, "name"), f'{taken[name]} is called "{name}" too'
            taken[name] = "another spolt"


def _inputs(where: Location, spolt: Mapping[str, object], sources: Sequence[object]) -> Iterator[Found]:
    entries = _list(spolt.get("from")) or [spolt.get("from")]
    for index, entry in enumerate(entries):
        place = (*where, "from", index)
        topic = entry if isinstance(entry, str) else _mapping(entry).get("topic")
        if not isinstance(topic, str):
            continue
        source, _, pattern = topic.partition(".")
        if source in sources:
            try:
                TablePatterns((pattern,))
            except ValueError:
                yield place, f"should be {source}.schema.table, for example {source}.shop.* or {source}.shop.orders"
            if {"format", "key"} & _mapping(entry).keys():
                yield place, f"tables of {source} are written as its own format says: leave format and key out"
        elif set(topic) & set("*?"):
            yield place, f"* and ? are for tables of a source, and none of the sources is called {source}"


def _outputs(
    where: Location, spolt: Mapping[str, object], sources: Sequence[object], directory: Path
) -> Iterator[Found]:
    seen: set[str] = set()
    entries = _list(spolt.get("to")) or [spolt.get("to")]
    for index, entry in enumerate(entries):
        place = (*where, "to", index)
        topic = entry if isinstance(entry, str) else _mapping(entry).get("topic")
        if isinstance(topic, str):
            if topic in seen:
                yield place, f"the topic {topic} is there twice"
            seen.add(topic)
            if topic.partition(".")[0] in sources:
                yield place, f"topics that begin with {topic.partition('.')[0]}. are the source's own: choose another"
        schema = _mapping(entry).get("schema")
        if isinstance(schema, str) and schema != "same":
            fault = _schema_fault(directory / schema)
            if fault:
                yield (*place, "schema"), fault


def _schema_fault(file: Path) -> str:
    try:
        AvroRecords(file.read_text(encoding="utf-8"))
    except OSError as error:
        return f"cannot read {file}: {error.strerror}"
    except ValueError as error:
        return f"{file}: {error}"
    return ""


def _function(where: Location, spolt: Mapping[str, object], directory: Path) -> Iterator[Found]:
    function, path = spolt.get("function"), spolt.get("path", ".")
    if not isinstance(function, str) or not isinstance(path, str):
        return
    module, colon, _ = function.partition(":")
    if not colon:
        yield (*where, "function"), "should be package.module:name, for example shop.spolts:big_orders"
    elif not _is_there(module, str((directory / path).resolve())):
        yield (*where, "function"), f"there is no module {module} below {(directory / path).resolve()}"


def _is_there(module: str, path: str) -> bool:
    """Whether a module can be found, running none: importlib would import the packages around it."""
    places: Sequence[str] = [path, *sys.path]
    found = None
    names = module.split(".")
    for index in range(len(names)):
        found = PathFinder.find_spec(".".join(names[: index + 1]), places)
        if found is None:
            return False
        places = list(found.submodule_search_locations or ())
    return found is not None


def _circles(spolts: Sequence[Mapping[str, object]]) -> Iterator[Found]:
    """A spolt that reads what comes of its own output would never be done."""
    reads = [_topics(spolt.get("from")) for spolt in spolts]
    writes = [_topics(spolt.get("to")) for spolt in spolts]
    for index in range(len(spolts)):
        reached, fresh = set(writes[index]), set(writes[index])
        while fresh:
            further = {topic for to, read in zip(writes, reads, strict=True) if read & fresh for topic in to}
            fresh = further - reached
            reached |= further
        circle = reached & reads[index]
        if circle:
            yield ("spolts", index, "from"), f"goes in a circle: {min(circle)} is made of what this spolt writes"


def _topics(given: object) -> set[str]:
    entries = _list(given) or [given]
    topics = (entry if isinstance(entry, str) else _mapping(entry).get("topic") for entry in entries)
    return {topic for topic in topics if isinstance(topic, str)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
