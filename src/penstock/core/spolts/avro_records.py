"""Records of any Avro schema, as bytes and as Python values.

Bytes and values are those of fastavro: Avro 1.12 specification, "Binary Encoding"
and "Logical Types"; with what `exact_values` does to them. Values are checked first, because an encoder alone writes a
number that is too large for its type without a word.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException
from fastavro.validation import ValidationError, validate

from penstock.core.spolts.exact_values import decoded_values, encodable_values

_DECODING: Final = (
    ArithmeticError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    struct.error,
)


class AvroRecords:
    """Decodes and encodes the values of one schema."""

    def __init__(self, text: str) -> None:
        """Parse a schema's JSON text; ValueError if it is none."""
        try:
            self._schema: Any = fastavro.parse_schema(json.loads(text))
        except (SchemaParseException, *_DECODING) as error:
            message = f"it is no Avro schema: {error}"
            raise ValueError(message) from error
        self._decoded = decoded_values(self._schema)
        self._encodable = encodable_values(self._schema)

    def decode(self, content: bytes) -> Any:  # noqa: ANN401 - whatever the schema says
        """Return the value that `content` holds, all of it; ValueError if it does not."""
        stream = BytesIO(content)
        try:
            value = fastavro.schemaless_reader(stream, self._schema, None)
        except _DECODING as error:
            message = f"the bytes do not decode ({type(error).__name__}: {error})"
            raise ValueError(message) from error
        if stream.tell() != len(content):
            message = f"{len(content) - stream.tell()} of {len(content)} bytes are left over"
            raise ValueError(message)
        return value if self._decoded is None else self._decoded(value)

    def encode(self, value: object) -> bytes:
        """Return the bytes of `value`; ValueError with the field for one that the schema does not take.

        A field that is left out has its default; one that the schema does not know
        is an error.
        """
        stream = BytesIO()
        try:
            exact = value if self._encodable is None else self._encodable(value)
            validate(exact, self._schema, strict=False)
            fastavro.schemaless_writer(stream, self._schema, exact, strict_allow_default=True)
        except ValidationError as error:
            raise ValueError(_first_fault(error)) from error
        except _DECODING as error:
            message = f"{type(error).__name__}: {error}"
            raise ValueError(message) from error
        return stream.getvalue()


@lru_cache(maxsize=1024)
def avro_records(text: str) -> AvroRecords:
    """The codec of a schema's JSON text, made once. ValueError as AvroRecords."""
    return AvroRecords(text)


def _first_fault(error: ValidationError) -> str:
    for fault in error.errors:
        return str(fault)
    return str(error)
