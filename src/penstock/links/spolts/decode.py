"""Decodes messages for user code, by what the file says of their topic and by the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from penstock.core.avro.wire import FRAME_BYTES, split
from penstock.core.spolts.avro_records import avro_records
from penstock.core.spolts.json_values import parse_json
from penstock.core.spolts.message import Message

if TYPE_CHECKING:
    from penstock.config.spolts import InputSpec, KeyFormat, ValueFormat
    from penstock.core.spolts.raw import RawMessage
    from penstock.ports.subjects import Subjects


@dataclass(frozen=True, slots=True)
class Decoded:
    """A message, as it is and as user code gets it. `key_schema` and `value_schema` are texts of Avro, else None."""

    raw: RawMessage
    message: Message
    format: ValueFormat
    key_schema: str | None
    value_schema: str | None


class MessageDecoder:
    """Decodes the messages of one input."""

    def __init__(self, given: InputSpec, subjects: Subjects) -> None:
        """Decode as `given` says, with the schemas of `subjects`."""
        self._input = given
        self._subjects = subjects

    def decode(self, raw: RawMessage) -> Decoded:
        """Decode one message.

        Raises ValueError for bytes that do not decode, PenstockError for a schema that
        the registry does not know, and UnavailableError while it is away.
        """
        key, key_schema = self._read("key", self._input.key_format, raw.key)
        value, value_schema = self._read("value", self._input.format, raw.value)
        message = Message(raw.topic, raw.partition, raw.offset, raw.timestamp_ms, key, value, raw.headers)
        return Decoded(raw, message, self._input.format, key_schema, value_schema)

    def schema_of(self, content: bytes | None) -> tuple[int, str] | None:
        """The id and the text of the schema that a value was written with, None where values are no Avro.

        Raises as `decode`.
        """
        if content is None or self._input.format != "avro":
            return None
        schema_id, _ = split(content)
        return schema_id, self._subjects.value_schema(schema_id)

    def _read(
        self, what: str, written: ValueFormat | KeyFormat | None, content: bytes | None
    ) -> tuple[Any, str | None]:
        if content is None:
            return None, None
        if written is None:
            written = "avro" if content[:1] == b"\0" and len(content) >= FRAME_BYTES else "bytes"
        try:
            match written:
                case "avro":
                    schema_id, rest = split(content)
                    text = self._subjects.value_schema(schema_id)
                    return avro_records(text).decode(rest), text
                case "json":
                    return parse_json(content), None
                case "text":
                    return content.decode(), None
                case "bytes":
                    return content, None
                case _:
                    assert_never(written)
        except ValueError as error:
            text = f"its {what} is no {written}: {error}"
            raise ValueError(text) from error
