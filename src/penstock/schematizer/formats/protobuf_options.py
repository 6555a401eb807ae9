"""Options of Protobuf descriptors as text, those too that a schema or its imports declare.

Source: Protocol Buffers language specification, "Option"; text format
specification for those that are messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_NOT_WRITTEN = frozenset({"map_entry", "uninterpreted_option"})


class Options:
    """What options mean where a pool of descriptors is known: that of a schema and of all that it imports."""

    def __init__(self, pool: DescriptorPool) -> None:
        """Take the pool as it is."""
        self._pool = pool

    def of(self, options: Message) -> list[str]:
        """Return each option that is set, as `name = value`, by name."""
        descriptor = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        known = message_factory.GetMessageClass(descriptor).FromString(options.SerializeToString())
        return sorted(_settings(known, ""))


def quoted(text: str) -> str:
    """Return `text` as a string of a .proto file."""
    return f'"{text_format.text_encoding.CEscape(text, as_utf8=True)}"'


def _settings(options: Message, prefix: str) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name in _NOT_WRITTEN and not field.is_extension:
            continue
        name = f"{prefix}(.{field.full_name})" if field.is_extension else f"{prefix}{field.name}"
        if field.is_repeated:
            yield from (f"{name} = {_value(field, each)}" for each in value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_extension:
            yield from _settings(value, f"{name}.")
        else:
            yield f"{name} = {_value(field, value)}"


def _value(field: FieldDescriptor, value: object) -> str:
    if field.type in {FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP}:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.type == FieldDescriptor.TYPE_ENUM:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else str(found.name)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f'"{text_format.text_encoding.CEscape(value, as_utf8=False)}"'
    return str(value).lower() if isinstance(value, bool) else repr(value)
