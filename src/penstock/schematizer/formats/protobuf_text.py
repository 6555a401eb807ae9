"""One text for one Protobuf schema: a descriptor, written as .proto.

Source: Protocol Buffers language specification (proto2, proto3, editions) and
descriptor.proto. Names of types are written in full, options by their names'
order; all other things stay in theirs, since messages are known by their place.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from penstock.schematizer.formats.protobuf_options import Options, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in {"TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP"}
}
_FIELD_NUMBER_MAX = (1 << 29) - 1
_ENUM_NUMBER_MAX = (1 << 31) - 1
_GROUP = FieldDescriptorProto.TYPE_GROUP
_LABELS = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}


def render_protobuf(file: FileDescriptorProto, options: Options) -> str:
    """Write `file` as text; `options` knows the options that its imports declare."""
    return "\n".join(_Writer(file, options).lines()) + "\n"


class _Writer:
    def __init__(self, file: FileDescriptorProto, options: Options) -> None:
        self._file = file
        self._options = options
        self._is_edition = file.syntax == "editions"

    def lines(self) -> Iterator[str]:
        file = self._file
        if self._is_edition:
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for index, name in enumerate(file.dependency):
            kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            yield f"import {kind}{quoted(name)};"
        yield from (f"option {option};" for option in self._options.of(file.options))
        messages = {f".{each.name}": each for each in file.message_type}
        groups = _groups_in(file.extension, messages)
        for message in file.message_type:
            if message.name not in groups:
                yield from self._message(message, f"message {message.name}", "")
        for enum in file.enum_type:
            yield from self._enum(enum, "")
        yield from self._extensions(list(file.extension), messages, "")
        for service in file.service:
            yield from self._service(service)

    def _message(self, message: DescriptorProto, head: str, indent: str) -> Iterator[str]:
        inner = f"{indent}  "
        nested = {f".{each.name}": each for each in message.nested_type}
        yield f"{indent}{head} {{"
        yield from (f"{inner}option {option};" for option in self._options.of(message.options))
        yield from self._members(message, nested, inner)
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        for ranged in message.extension_range:
            told = _bracketed(self._options.of(ranged.options))
            yield f"{inner}extensions {_range(ranged.start, ranged.end - 1, _FIELD_NUMBER_MAX)}{told};"
        yield from self._extensions(list(message.extension), nested, inner)
        for reserved in message.reserved_range:
            yield f"{inner}reserved {_range(reserved.start, reserved.end - 1, _FIELD_NUMBER_MAX)};"
        yield from (f"{inner}reserved {self._reserved(name)};" for name in message.reserved_name)
        yield f"{indent}}}"

    def _members(self, message: DescriptorProto, nested: dict[str, DescriptorProto], indent: str) -> Iterator[str]:
        """Write fields and nested messages so that those that fields make (of maps and groups) keep their places."""
        elsewhere = _groups_in(message.extension, nested)
        blocks = [(place, list(fields)) for place, fields in groupby(message.field, key=_oneof_of)]
        made: set[str] = set()
        for each in message.nested_type:
            if each.name not in elsewhere | _made_by(message.field, nested):
                yield from self._message(each, f"message {each.name}", indent)
            while each.name not in made | elsewhere and each.name in _made_by(message.field, nested):
                made |= _made_by(blocks[0][1], nested)
                yield from self._block(message, *blocks.pop(0), nested, indent)
        for place, fields in blocks:
            yield from self._block(message, place, fields, nested, indent)

    def _block(
        self,
        message: DescriptorProto,
        place: int | None,
        fields: list[FieldDescriptorProto],
        nested: dict[str, DescriptorProto],
        indent: str,
    ) -> Iterator[str]:
        if place is None:
            for field in fields:
                yield from self._field(field, nested, indent)
            return
        oneof = message.oneof_decl[place]
        yield f"{indent}oneof {oneof.name} {{"
        yield from (f"{indent}  option {option};" for option in self._options.of(oneof.options))
        for field in fields:
            yield from self._field(field, nested, f"{indent}  ", bare=True)
        yield f"{indent}}}"

    def _field(
        self, field: FieldDescriptorProto, nested: dict[str, DescriptorProto], indent: str, *, bare: bool = False
    ) -> Iterator[str]:
        inner = nested.get(f".{field.type_name.rpartition('.')[2]}")
        label = "" if bare else self._label(field)
        type_ = field.type_name or _SCALARS.get(field.type, "?")
        if field.type != _GROUP and inner is not None and inner.options.map_entry:
            key, value = inner.field
            label, type_ = "", f"map<{_SCALARS.get(key.type, '?')}, {value.type_name or _SCALARS.get(value.type, '?')}>"
        told = _bracketed(list(self._field_options(field)))
        if field.type == _GROUP and not self._is_edition and inner is not None:
            yield from self._message(inner, f"{label}group {inner.name} = {field.number}{told}", indent)
            return
        yield f"{indent}{label}{type_} {field.name} = {field.number}{told};"

    def _label(self, field: FieldDescriptorProto) -> str:
        is_plain = self._is_edition or self._file.syntax == "proto3"
        if is_plain and field.label == FieldDescriptorProto.LABEL_OPTIONAL and not field.proto3_optional:
            return ""
        return _LABELS[field.label]

    def _field_options(self, field: FieldDescriptorProto) -> Iterator[str]:
        if field.HasField("default_value"):
            yield f"default = {_default(field)}"
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            yield f"json_name = {quoted(field.json_name)}"
        yield from self._options.of(field.options)

    def _extensions(
        self, fields: list[FieldDescriptorProto], nested: dict[str, DescriptorProto], indent: str
    ) -> Iterator[str]:
        for extended, each in groupby(fields, key=lambda field: field.extendee):
            yield f"{indent}extend {extended} {{"
            for field in each:
                yield from self._field(field, nested, f"{indent}  ")
            yield f"{indent}}}"

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        inner = f"{indent}  "
        yield f"{indent}enum {enum.name} {{"
        yield from (f"{inner}option {option};" for option in self._options.of(enum.options))
        for value in enum.value:
            yield f"{inner}{value.name} = {value.number}{_bracketed(self._options.of(value.options))};"
        for reserved in enum.reserved_range:
            yield f"{inner}reserved {_range(reserved.start, reserved.end, _ENUM_NUMBER_MAX)};"
        yield from (f"{inner}reserved {self._reserved(name)};" for name in enum.reserved_name)
        yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from (f"  option {option};" for option in self._options.of(service.options))
        for method in service.method:
            taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            yield f"  rpc {method.name} ({taken}) returns ({given}) {{"
            yield from (f"    option {option};" for option in self._options.of(method.options))
            yield "  }"
        yield "}"

    def _reserved(self, name: str) -> str:
        return name if self._is_edition else quoted(name)


def _oneof_of(field: FieldDescriptorProto) -> int | None:
    return field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None


def _groups_in(fields: Iterable[FieldDescriptorProto], nested: dict[str, DescriptorProto]) -> set[str]:
    """Name the nested messages that are groups, which are written where they are used."""
    names = {f".{field.type_name.rpartition('.')[2]}" for field in fields if field.type == _GROUP}
    return {each.name for name, each in nested.items() if name in names}


def _made_by(fields: Iterable[FieldDescriptorProto], nested: dict[str, DescriptorProto]) -> set[str]:
    """Name the nested messages that fields make: groups, and the entries of maps."""
    names = {f".{field.type_name.rpartition('.')[2]}" for field in fields}
    entries = {each.name for name, each in nested.items() if name in names and each.options.map_entry}
    return entries | _groups_in(fields, nested)


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == most else last}"


def _bracketed(options: list[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return quoted(field.default_value)
    if field.type == FieldDescriptorProto.TYPE_BYTES:
        # It is escaped as C does already.
        return f'"{field.default_value}"'
    return str(field.default_value)


def _json_name(name: str) -> str:
    """Return the name that a field has in JSON unless it says another (language guide, "JSON Options")."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)
