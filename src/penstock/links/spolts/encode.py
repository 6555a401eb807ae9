"""Encodes what user code gives back, and registers the schemas of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.avro.wire import frame, split
from penstock.core.spolts.arrow_schemas import avro_of_arrow, key_avro_of_value
from penstock.core.spolts.avro_records import avro_records
from penstock.core.spolts.json_values import is_same, parse_json, render_json
from penstock.core.spolts.message import Message, Output, Same

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.config.spolts import OutputSpec
    from penstock.core.spolts.message import Traits
    from penstock.core.spolts.row_images import Record
    from penstock.links.spolts.decode import Decoded
    from penstock.links.spolts.spec import SpoltJob
    from penstock.ports.subjects import Subjects


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message to publish."""

    topic: str
    key: bytes | None
    value: bytes | None


class OutputEncoder:
    """Encodes for the outputs of one spolt. Faults of user code are ValueError or TypeError."""

    def __init__(self, job: SpoltJob, traits: Traits, subjects: Subjects) -> None:
        """Register with `subjects`, when something is written."""
        self._job = job
        self._outputs = {output.topic: output for output in job.spolt.outputs}
        self._traits = traits
        self._subjects = subjects

    def output(self, name: str | None) -> OutputSpec:
        """The output that is called `name`, the only one for None; ValueError if there is none."""
        if name is None and len(self._outputs) == 1:
            return next(iter(self._outputs.values()))
        found = self._outputs.get(name or "")
        if found is None:
            what = "an output does not say where to" if name is None else f"{name} is no output of this spolt"
            text = f"{what}; it has: {', '.join(self._outputs)}"
            raise ValueError(text)
        return found

    def encode(self, given: Output | Message, origin: Decoded) -> Encoded:
        """Encode one output that user code made of the message `origin`."""
        output = given if isinstance(given, Output) else Output(given)
        spec = self.output(output.to)
        if spec.schema_file == "same":
            return Encoded(spec.topic, self._plain_key(spec, output, origin), self._same(spec, output, origin))
        if isinstance(output.value, bytes | str | Message):
            what = type(output.value).__name__
            text = f"the value for {spec.topic} is a {what}: give a record, or say `schema: same` in the file"
            raise TypeError(text)
        text = self.schema_text(spec)
        key = self.record_key(spec, text, output) if spec.key else self._plain_key(spec, output, origin)
        return Encoded(spec.topic, key, self.record_value(spec, text, output.value))

    def schema_text(self, spec: OutputSpec) -> str:
        """The schema of an output that the file or `@spolt` tells; ValueError if neither does."""
        if isinstance(spec.schema_file, Path):
            return self._job.schemas[spec.topic]
        told = self.told_schema(spec)
        if told is None:
            text = f"nothing says which schema {spec.topic} has"
            raise ValueError(text)
        return avro_of_arrow(spec.topic, told)

    def told_schema(self, spec: OutputSpec) -> pa.Schema | None:
        """The Arrow schema that `@spolt` tells of an output, None if it tells none."""
        return self._traits.schema_of(spec.topic)

    def record_value(self, spec: OutputSpec, schema: str, value: Record | None) -> bytes | None:
        """Encode a value with the Avro `schema`; None is a tombstone."""
        if value is None:
            return None
        content = _encode(schema, value, f"the value for {spec.topic}")
        return frame(self._subjects.register_subject(f"{spec.topic}-value", schema)) + content

    def record_key(self, spec: OutputSpec, schema: str, output: Output) -> bytes:
        """Encode the key that is made of fields of a value with the Avro `schema`."""
        record = output.key if isinstance(output.key, Mapping) else output.value
        if not isinstance(record, Mapping):
            text = f"a tombstone for {spec.topic} has no fields for its key: give it as Output(None, key={{...}})"
            raise TypeError(text)
        key_schema = key_avro_of_value(spec.topic, schema, spec.key)
        content = _encode(key_schema, {name: record.get(name) for name in spec.key}, f"the key for {spec.topic}")
        return frame(self._subjects.register_subject(f"{spec.topic}-key", key_schema)) + content

    def _plain_key(self, spec: OutputSpec, output: Output, origin: Decoded) -> bytes | None:
        match output.key:
            case bytes() | None:
                return output.key
            case str():
                return output.key.encode()
            case Same():
                return self._moved(f"{spec.topic}-key", origin.key_schema, origin.raw.key)
            case _:
                text = f"the key for {spec.topic} is a record, and the file names no `key` fields for it"
                raise TypeError(text)

    def _same(self, spec: OutputSpec, output: Output, origin: Decoded) -> bytes | None:
        """Encode a value as the message that it comes from was encoded."""
        value = output.value.value if isinstance(output.value, Message) else output.value
        subject = f"{spec.topic}-value"
        if origin.value_schema is None:
            return _as_written(origin, value, spec.topic)
        if value is None:
            return None
        content = origin.raw.value
        # User code may have changed the value in place, so it is held against what the bytes say.
        if content is not None and is_same(value, avro_records(origin.value_schema).decode(split(content)[1])):
            return self._moved(subject, origin.value_schema, content)
        encoded = _encode(origin.value_schema, value, f"the value for {spec.topic}")
        return frame(self._subjects.register_subject(subject, origin.value_schema)) + encoded

    def _moved(self, subject: str, schema: str | None, content: bytes | None) -> bytes | None:
        """Return bytes as they were, their schema registered under another subject, where it may have another id."""
        if schema is None or content is None:
            return content
        return frame(self._subjects.register_subject(subject, schema)) + split(content)[1]


def key_of_text(key: object) -> bytes | None:
    """A key as bytes: text in UTF-8, bytes as they are; TypeError for anything else but None."""
    if isinstance(key, str):
        return key.encode()
    if key is None or isinstance(key, bytes):
        return key
    text = f"a key is bytes, text or nothing, not {type(key).__name__}"
    raise TypeError(text)


def _encode(schema: str, value: object, what: str) -> bytes:
    try:
        return avro_records(schema).encode(value)
    except ValueError as error:
        text = f"{what} does not fit its schema: {error}"
        raise ValueError(text) from error


def _as_written(origin: Decoded, value: object, topic: str) -> bytes | None:
    """Encode a value of a topic without schemas; bytes are taken as they are."""
    if value is None or isinstance(value, bytes):
        return value
    if origin.format != "json":
        text = f"the value for {topic} is a {type(value).__name__}, and {origin.raw.topic} has bytes"
        raise TypeError(text)
    if origin.raw.value is not None and is_same(value, parse_json(origin.raw.value)):
        return origin.raw.value
    return render_json(value).encode()
