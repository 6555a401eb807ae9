"""Our verdicts on Avro schemas beside those of org.apache.avro's SchemaCompatibility and fastavro's reader."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from tests.unit.schematizer.test_compatibility import (
    declarations,
    evolved,
    resolve,
    schema,
    values,
    without_logical_types,
)

from penstock.core.compatibility import Reading, reading_problems
from penstock.embedded.java import java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json: TypeAlias = Any
Verdict: TypeAlias = "Callable[[Json, Json], bool]"

# All that we refuse and Avro does not, word for word.
STRICTER = re.compile(
    # Namespaces count for tables.
    r"(.*: )?record n\.R is not readable as .*|(.*: )?record R is not readable as .*\bn\.R\b.*"
    r"|.* does not mean the same as .*"
    r"|.*: not every value would come out equal"
    r"|(.*: )?the reader does not know the symbols .*"
)


@st.composite
def unions(draw: st.DrawFn) -> tuple[Json, Json]:
    """Two unions of some of the same few types, or one such type and a union.

    No union has types that differ in their namespaces alone: SchemaCompatibility
    is content if one of them can be read, where Java's reader takes only the
    one of the same full name, as we do.
    """
    records = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": kind, **more}]}
        for name in ("R", "S", "n.R")
        for kind in ("int", "string")
        for more in ({}, {"default": 0 if kind == "int" else ""})
    ]
    enums = [{"type": "enum", "name": "E", "symbols": list(symbols)} for symbols in ("A", "AB")]
    maps = [{"type": "map", "values": "int"}, {"type": "array", "items": "long"}]
    plain = ["null", "int", "long", "float", "double", "string", "bytes", "boolean"]
    kind = st.sampled_from([*records, *enums, *maps, *plain])

    def name(declared: Json) -> str:
        full = declared if isinstance(declared, str) else declared.get("name", declared["type"])
        return str(full).removeprefix("n.")

    union = st.lists(kind, min_size=1, max_size=3, unique_by=name)
    sides = st.one_of(union, union, kind)
    return draw(sides), draw(sides)


PAIRS = st.one_of(st.tuples(declarations(), declarations()), evolved(), unions())


@pytest.fixture(scope="module")
def verdict() -> Iterator[Verdict]:
    """Whether Java reads data of the first schema with the second, from the jars that PySpark brings along."""
    jars = Path(str(files("pyspark"))) / "jars"
    names = ("avro", "jackson-core", "jackson-databind", "jackson-annotations", "slf4j-api")
    found = [str(jar) for name in names for jar in jars.glob(f"{name}-[0-9]*.jar")]
    (bridge,) = jars.glob("py4j-[0-9]*.jar")
    port, secret = launch_gateway(
        jarpath=str(bridge), classpath=":".join(found), die_on_exit=True, java_path=java(), enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    avro = gateway.jvm.org.apache.avro

    def parsed(declared: Json) -> object:
        return avro.Schema.Parser().parse(json.dumps(declared))

    def is_readable(writer: Json, reader: Json) -> bool:
        answer = avro.SchemaCompatibility.checkReaderWriterCompatibility(parsed(reader), parsed(writer))
        return str(answer.getType()) == "COMPATIBLE"

    yield is_readable
    gateway.shutdown()


@settings(max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=PAIRS)
def test_without_logical_types_backward_and_forward_are_what_java_says(
    verdict: Verdict, pair: tuple[Json, Json]
) -> None:
    writer, reader = (without_logical_types(each) for each in pair)
    ours = not reading_problems(schema(reader), schema(writer), Reading.AVRO)
    event(f"compatible: {ours}")

    assert ours is verdict(writer, reader)


@settings(max_examples=2 * settings().max_examples)
@given(pair=PAIRS)
def test_where_we_are_stricter_it_is_for_a_reason_that_we_name(verdict: Verdict, pair: tuple[Json, Json]) -> None:
    writer, reader = pair
    exact = reading_problems(schema(reader), schema(writer), Reading.EXACT)
    of_java = verdict(writer, reader)
    event(f"Java: {of_java}, tables: {not exact}")

    assert of_java or exact
    if of_java:
        assert [problem for problem in exact if not STRICTER.fullmatch(problem)] == []


@pytest.mark.nightly
@settings(max_examples=2 * settings().max_examples)
@given(pair=PAIRS, data=st.data())
def test_data_of_a_compatible_writer_is_read_by_fastavro(pair: tuple[Json, Json], data: st.DataObject) -> None:
    writer, reader = pair
    if not reading_problems(schema(reader), schema(writer), Reading.AVRO):
        value = data.draw(values(writer))

        try:
            resolve(value, writer, reader)
        except UnicodeDecodeError:
            # Avro promotes bytes to text; fastavro wants them to be UTF-8 then.
            event("bytes that are no text")
            assert '"bytes"' in json.dumps(writer)
