"""Protobuf schemas: a .proto text, or a serialized FileDescriptorProto in Base64, as one canonical text.

Source: descriptor.proto; Confluent's Protobuf serializers send the second form.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import Edition, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.schematizer.formats.protobuf_compiler import compile_protobuf
from penstock.schematizer.formats.protobuf_options import Options
from penstock.schematizer.formats.protobuf_text import render_protobuf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.descriptor import FileDescriptor

# In an order in which each comes behind what it imports.
_WELL_KNOWN: Mapping[str, bytes] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        descriptor_pb2,
        any_pb2,
        source_context_pb2,
        type_pb2,
        api_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_NAME = "schema.proto"


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    """A schema that protoc found good: its descriptor, what it means with its imports, and its canonical text."""

    descriptor: bytes
    file: FileDescriptor
    text: str


def is_descriptor(schema: str) -> bool:
    """Tell whether a schema is in Base64, which no text is: not without a `;` or a quotation mark."""
    return _BASE64.fullmatch(schema) is not None


def protobuf_text(schema: str, used: Mapping[str, bytes]) -> str:
    """Return a schema as text: one in Base64 as its canonical one, any other as it is.

    `used` has the descriptors of what it imports, by name. Raises ValueError for
    a descriptor that cannot be written as text.
    """
    if not is_descriptor(schema):
        return schema
    try:
        descriptor = FileDescriptorProto.FromString(base64.b64decode(schema))
    except (binascii.Error, DecodeError):
        return schema
    return _described(descriptor, used).text


def compile_schema(text: str, used: Mapping[str, bytes]) -> ProtobufSchema:
    """Let protoc compile a text. Raises ValueError with the line and column of every mistake."""
    files = [_named(name, FileDescriptorProto.FromString(each)) for name, each in used.items()]
    return _described(compile_protobuf(text, [each for each in files if each.name not in _WELL_KNOWN]), used)


def compiled_schema(descriptor: bytes, used: Mapping[str, bytes]) -> ProtobufSchema:
    """Return a schema that was compiled before."""
    return _described(FileDescriptorProto.FromString(descriptor), used)


def serialized(schema: ProtobufSchema) -> str:
    """Return a schema as Confluent's clients want it: its descriptor, in Base64."""
    return base64.b64encode(schema.descriptor).decode()


def _described(descriptor: FileDescriptorProto, used: Mapping[str, bytes]) -> ProtobufSchema:
    if descriptor.syntax == "editions" and descriptor.edition != Edition.EDITION_2023:
        message = "of the editions, only 2023 is known here"
        raise ValueError(message)
    name = _NAME
    while name in used:
        name = f"_{name}"
    descriptor = _named(name, descriptor)
    descriptor.ClearField("source_code_info")
    pool = DescriptorPool()
    others = {each: content for each, content in used.items() if each not in _WELL_KNOWN}
    try:
        files = [_named(each, FileDescriptorProto.FromString(content)) for each, content in others.items()]
        for each in (*_well_known_for(descriptor, files), *files, descriptor):
            pool.Add(each)
        file = pool.FindFileByName(name)
        text = render_protobuf(descriptor, Options(pool))
    except (TypeError, KeyError, ValueError, DecodeError) as error:
        message = f"its descriptor is none: {error}"
        raise ValueError(message) from error
    return ProtobufSchema(descriptor.SerializeToString(deterministic=True), file, text)


def _well_known_for(descriptor: FileDescriptorProto, used: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return Google's files that are imported, and that of the options, unless the schema is that."""
    wanted = {name for each in (descriptor, *used) for name in each.dependency}
    if descriptor.package != "google.protobuf" or all(each.name != "FileOptions" for each in descriptor.message_type):
        wanted.add(descriptor_pb2.DESCRIPTOR.name)
    found: list[FileDescriptorProto] = []
    for name, content in reversed(list(_WELL_KNOWN.items())):
        if name in wanted:
            found.insert(0, FileDescriptorProto.FromString(content))
            wanted.update(found[0].dependency)
    return found


def _named(name: str, descriptor: FileDescriptorProto) -> FileDescriptorProto:
    named = FileDescriptorProto()
    named.CopyFrom(descriptor)
    named.name = name
    return named
