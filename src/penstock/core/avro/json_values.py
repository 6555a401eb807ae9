"""JSON values with types, and objects read field by field with an error that names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from penstock.core.errors import PenstockError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One object of a schema's JSON text. Every getter raises PenstockError for a field that is not as it should be."""

    fields: Mapping[str, JsonValue]

    @classmethod
    def parse(cls, text: str) -> JsonObject:
        """Read `text`; PenstockError unless it is one JSON object."""
        try:
            value: JsonValue = json.loads(text)
        except ValueError as error:
            refuse(f"it is not JSON ({error})")
        return cls.of(value, "the schema")

    @classmethod
    def of(cls, value: JsonValue, what: str) -> JsonObject:
        """Take `value` for an object; `what` is its name in the error."""
        if not isinstance(value, Mapping):
            refuse(f"{what} is not an object")
        return cls(value)

    def text(self, key: str) -> str:
        """The string at `key`."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            refuse(f"{key} is {value!r} and not a text")
        return value

    def optional_text(self, key: str) -> str | None:
        """The string at `key`, None where there is none."""
        return self.text(key) if key in self.fields else None

    def integer(self, key: str) -> int:
        """The integer at `key`."""
        value = self.fields.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            refuse(f"{key} is {value!r} and not an integer")
        return value

    def flag(self, key: str) -> bool:
        """The boolean at `key`, False where there is none."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            refuse(f"{key} is {value!r} and neither true nor false")
        return value

    def items(self, key: str) -> Sequence[JsonValue]:
        """The list at `key`."""
        value = self.fields.get(key)
        if not isinstance(value, list):
            refuse(f"{key} is {value!r} and not a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at `key`."""
        items = self.items(key)
        if not all(isinstance(item, str) for item in items):
            refuse(f"{key} is not a list of texts")
        return tuple(str(item) for item in items)

    def objects(self, key: str) -> tuple[JsonObject, ...]:
        """The list of objects at `key`."""
        return tuple(JsonObject.of(item, f"a member of {key}") for item in self.items(key))


def render(value: JsonValue) -> str:
    """Write `value` as JSON, the same value always as the same text, without spaces."""
    return json.dumps(value, separators=(",", ":"))


def refuse(reason: str) -> NoReturn:
    """Raise the PenstockError for a schema that Penstock did not write."""
    message = f"an Avro schema is not one of Penstock's: {reason}"
    raise PenstockError(message, "let only Penstock register schemas of its topics; move what others wrote elsewhere")
