"""Compatibility levels of a subject.

Source: Confluent Schema Registry documentation, "Schema Evolution and
Compatibility", table of compatibility types.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.core.avro_types import AvroSchema
from penstock.core.compatibility import Reading, reading_problems
from penstock.schematizer.formats.comparisons import compare_once
from penstock.schematizer.formats.json_compatibility import json_problems
from penstock.schematizer.formats.json_schemas import JsonSchema
from penstock.schematizer.formats.protobuf_compatibility import protobuf_problems, reuse_problems
from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.schematizer.formats.schema_types import Form


class Level(StrEnum):
    """What a new version of a subject must be able to do with the older ones."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Whether every older version counts, not only the newest."""
        return self.value.endswith("_TRANSITIVE")


def level_problems(level: Level, reading: Reading, new: Form, old: Sequence[Form]) -> tuple[str, ...]:
    """List what keeps `new` from following `old` (oldest first) at `level`; empty if nothing does."""
    counted = old if level.transitive else old[-1:]
    return tuple(problem for schema in counted for problem in pair_problems(level, reading, new, schema))


def pair_problems(level: Level, reading: Reading, new: Form, old: Form) -> tuple[str, ...]:
    """List what keeps `new` from following one older schema."""
    problems: list[str] = []
    if level in {Level.BACKWARD, Level.BACKWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}:
        problems += [f"new reads old: {problem}" for problem in _reading_problems(new, old, reading)]
    if level in {Level.FORWARD, Level.FORWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}:
        problems += [f"old reads new: {problem}" for problem in _reading_problems(old, new, reading)]
    if level is not Level.NONE and isinstance(new, ProtobufSchema) and isinstance(old, ProtobufSchema):
        problems += reuse_problems(new, old)
    return tuple(problems)


def avro_problems(reader: AvroSchema, writer: AvroSchema, reading: Reading = Reading.EXACT) -> tuple[str, ...]:
    """List why data written with `writer` cannot be read with `reader`."""
    return compare_once(lambda one, other: reading_problems(one, other, reading), reader, writer, reading)


def _reading_problems(reader: Form, writer: Form, reading: Reading) -> tuple[str, ...]:
    match reader, writer:
        case AvroSchema(), AvroSchema():
            return avro_problems(reader, writer, reading)
        case JsonSchema(), JsonSchema():
            return compare_once(json_problems, reader, writer)
        case ProtobufSchema(), ProtobufSchema():
            return compare_once(protobuf_problems, reader, writer)
        case _:
            return ("the schemas are of different types",)
