"""Whether data written with one Protobuf schema can be read with another, by what their numbers and types say.

Source: Protocol Buffers documentation, "Updating A Message Type" (proto2 and
proto3 language guides): which types read each other, what may become of fields
of a oneof, and that numbers and names once reserved are not used again. Names
of packages do not count: they are not in the data.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.descriptor import Descriptor, EnumDescriptor, OneofDescriptor

    from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema

_NAMES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}
# Types that read each other's data.
_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("int32", "uint32", "int64", "uint64", "bool", "enum"), "varint"),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
}
_REPEATABLE = frozenset({"string", "bytes", "message", "group"})


def protobuf_problems(reader: ProtobufSchema, writer: ProtobufSchema) -> tuple[str, ...]:
    """List why data of `writer` cannot be read with `reader`, each with its path; empty if it can."""
    return tuple(dict.fromkeys(_Walk().compare_files(reader, writer)))


def reuse_problems(new: ProtobufSchema, old: ProtobufSchema) -> tuple[str, ...]:
    """List what `new` uses although `old` reserved it."""
    before = _messages(old)
    found = [problem for name, message in _messages(new).items() if name in before
             for problem in _reused(name, message, before[name])]  # fmt: skip
    enums = _enums(old)
    for name, enum in _enums(new).items():
        if name in enums:
            found += _reused_values(name, enum, enums[name])
    return tuple(found)


class _Walk:
    """One comparison of a reader with a writer."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def compare_files(self, reader: ProtobufSchema, writer: ProtobufSchema) -> Iterator[str]:
        known = _messages(reader)
        for name, message in _messages(writer).items():
            if name not in known:
                yield f"{name}: the message is not there"
            else:
                yield from self._compare_messages(known[name], message, name)
        read, written = _extensions(reader), _extensions(writer)
        for extended in read.keys() & written.keys():
            for number in read[extended].keys() & written[extended].keys():
                here, there = read[extended][number], written[extended][number]
                yield from self._compare_fields(here, there, f"extend {extended}.{there.name}")

    def _compare_messages(self, reader: Descriptor, writer: Descriptor, path: str) -> Iterator[str]:
        if (reader.full_name, writer.full_name) in self._seen:
            return
        self._seen.add((reader.full_name, writer.full_name))
        written = writer.fields_by_number
        for number, field in sorted(reader.fields_by_number.items()):
            if number in written:
                yield from self._compare_fields(field, written[number], f"{path}.{written[number].name}")
            elif field.is_required:
                yield f"{path}.{field.name}: the field is required, and the writer lacks it"
            other = writer.fields_by_name.get(field.name)
            if other is not None and other.number != number:
                yield f"{path}.{field.name}: the field has the number {number}, and had {other.number}"
        for oneof in _written_oneofs(reader):
            yield from _compare_oneofs(oneof, writer, path)

    def _compare_fields(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> Iterator[str]:
        kind, before = _NAMES[reader.type], _NAMES[writer.type]
        if reader.is_required and not writer.is_required:
            yield f"{path}: the field is required, and was not"
        if reader.is_repeated != writer.is_repeated and not {kind, before} <= _REPEATABLE:
            words = ("repeated", "single") if reader.is_repeated else ("single", "repeated")
            yield f"{path}: the field is {words[0]}, and was {words[1]}: numbers are packed where they are repeated"
        if kind == before in {"message", "group"}:
            yield from self._compare_messages(reader.message_type, writer.message_type, path)
        elif kind == before == "enum":
            yield from self._compare_enums(reader.enum_type, writer.enum_type, path)
        elif kind == "string" and before == "bytes":
            yield f"{path}: bytes are not readable as string: they need not be UTF-8"
        elif kind == "bytes" and before in {"string", "message"}:
            return
        elif _GROUPS.get(kind, kind) != _GROUPS.get(before, before):
            yield f"{path}: {before} is not readable as {kind}"

    def _compare_enums(self, reader: EnumDescriptor, writer: EnumDescriptor, path: str) -> Iterator[str]:
        if (reader.full_name, writer.full_name) in self._seen:
            return
        self._seen.add((reader.full_name, writer.full_name))
        for name, value in reader.values_by_name.items():
            other = writer.values_by_name.get(name)
            if other is not None and other.number != value.number:
                yield f"{path}: the value {name} is {value.number}, and was {other.number}"


def _written_oneofs(message: Descriptor) -> list[OneofDescriptor]:
    """Return the oneofs of a message without those that stand for `optional`."""
    declared = DescriptorProto()
    message.CopyToProto(declared)
    made = {field.oneof_index for field in declared.field if field.proto3_optional}
    return [oneof for oneof in message.oneofs if oneof.index not in made]


def _compare_oneofs(oneof: OneofDescriptor, writer: Descriptor, path: str) -> Iterator[str]:
    """A oneof keeps one of its fields: what could be there at once before must not meet in it."""
    before = [writer.fields_by_number[f.number] for f in oneof.fields if f.number in writer.fields_by_number]
    homes = {each.containing_oneof.name if each.containing_oneof else f".{each.name}" for each in before}
    if len(homes) > 1:
        names = ", ".join(each.name for each in before)
        yield f"{path}.{oneof.name}: the fields {names} are in one oneof, and were not: of several, one would be kept"
    here = {field.number for field in oneof.fields}
    for home in {
        each.containing_oneof.name: each.containing_oneof for each in before if each.containing_oneof
    }.values():
        for lost in home.fields:
            if lost.number not in here and lost.number not in oneof.containing_type.fields_by_number:
                yield f"{path}.{oneof.name}: the field {lost.name} is not there: whether it was set cannot be told"


def _reused(name: str, new: Descriptor, old: Descriptor) -> Iterator[str]:
    declared = DescriptorProto()
    old.CopyToProto(declared)
    names, numbers = set(declared.reserved_name), _Ranges((each.start, each.end) for each in declared.reserved_range)
    for field in new.fields:
        if field.number in numbers:
            yield f"{name}.{field.name}: the number {field.number} is reserved in the older schema"
        if field.name in names:
            yield f"{name}.{field.name}: the name is reserved in the older schema"


def _reused_values(name: str, new: EnumDescriptor, old: EnumDescriptor) -> Iterator[str]:
    declared = EnumDescriptorProto()
    old.CopyToProto(declared)
    # Of an enum, the end of a range is in it.
    ranges = _Ranges((each.start, each.end + 1) for each in declared.reserved_range)
    names = set(declared.reserved_name)
    for value in new.values:
        if value.number in ranges:
            yield f"{name}.{value.name}: the number {value.number} is reserved in the older schema"
        if value.name in names:
            yield f"{name}.{value.name}: the name is reserved in the older schema"


class _Ranges:
    """Numbers from a start to before an end; ranges do not overlap."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = sorted(ranges)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._ranges, number, key=lambda each: each[0]) - 1
        return at >= 0 and number < self._ranges[at][1]


def _messages(schema: ProtobufSchema) -> dict[str, Descriptor]:
    """Return the messages of a file by their names within its package, without the entries of maps."""
    return {_within(schema, each.full_name): each for each in _all_messages(schema.file.message_types_by_name)}


def _all_messages(named: Mapping[str, Descriptor]) -> Iterator[Descriptor]:
    for message in named.values():
        if not message.GetOptions().map_entry:
            yield message
            yield from _all_messages(message.nested_types_by_name)


def _enums(schema: ProtobufSchema) -> dict[str, EnumDescriptor]:
    found = [*schema.file.enum_types_by_name.values()]
    found += [enum for message in _messages(schema).values() for enum in message.enum_types]
    return {_within(schema, enum.full_name): enum for enum in found}


def _extensions(schema: ProtobufSchema) -> dict[str, dict[int, FieldDescriptor]]:
    found = [*schema.file.extensions_by_name.values()]
    found += [each for message in _messages(schema).values() for each in message.extensions]
    extended: dict[str, dict[int, FieldDescriptor]] = {}
    for field in found:
        extended.setdefault(_within(schema, field.containing_type.full_name), {})[field.number] = field
    return extended


def _within(schema: ProtobufSchema, name: str) -> str:
    package = schema.file.package
    return name.removeprefix(f"{package}.") if package else name
