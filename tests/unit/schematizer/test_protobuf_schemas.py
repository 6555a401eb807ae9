"""What is a Protobuf schema, and which texts and descriptors are the same one."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import any_pb2, api_pb2, descriptor_pb2, struct_pb2, type_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from penstock.schematizer.formats.protobuf_schemas import compile_schema, compiled_schema, protobuf_text, serialized

PROTO3 = """syntax = "proto3";
package shop;
import public "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "org.shop";
extend google.protobuf.FieldOptions { string note = 50001; repeated Opinion many = 50002; }
message Opinion { int32 a = 1; repeated string b = 2; }
message Order {
  int32 i_x = 1 [(note) = "h\\"\\n", (many) = { a: 1, b: ["x", "y"] }];
  message Item { reserved 2, 5 to 7, 1000 to max; reserved "foo"; }
  map<string, Kind> kinds = 4;
  optional string o = 5;
  oneof k { option (told) = true; int32 p = 6; string q = 7 [json_name = "zz"]; }
  Item z = 9 [deprecated = true];
  repeated int32 u = 10 [packed = false];
  google.protobuf.Timestamp t = 11;
}
extend google.protobuf.OneofOptions { bool told = 50003; }
enum Kind { option allow_alias = true; A = 0; B = 1; C = 1; reserved 5 to 9; reserved "D"; }
service Orders { rpc Get (Order) returns (stream Order) { option idempotency_level = IDEMPOTENT; } }
"""
PROTO2 = """message A {
  required int32 i = 1 [default = 5];
  optional string s = 2 [default = "a\\"\\x01"];
  optional bytes b = 3 [default = "\\xff\\"\\n"];
  extensions 100 to 199, 500 to max;
  message First {}
  optional group G = 4 { optional int32 x = 1; }
  message Last {}
  optional double d = 5 [default = -inf];
  oneof o { int32 p = 8; group H = 9 { optional int32 y = 1; } }
  enum E { X = 1; Y = 2; }
  optional E e = 10 [default = Y];
}
extend A { repeated string xs = 100; optional group Z = 101 { optional int32 w = 1; } }
"""
EDITION = """edition = "2023";
package q;
option features.field_presence = IMPLICIT;
message A {
  int32 i = 1 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 u = 2 [features.repeated_field_encoding = EXPANDED];
  A a = 3 [features.message_encoding = DELIMITED];
  reserved foo;
}
"""


@pytest.mark.parametrize("text", [PROTO3, PROTO2, EDITION], ids=["3", "2", "2023"])
def test_text_descriptor_and_canonical_text_are_one_schema(text: str) -> None:
    written = compile_schema(text, {})

    again = compile_schema(written.text, {})

    assert again.text == written.text
    assert again.descriptor == written.descriptor
    assert protobuf_text(serialized(written), {}) == written.text
    assert compiled_schema(written.descriptor, {}).text == written.text


@pytest.mark.parametrize("module", [any_pb2, api_pb2, descriptor_pb2, struct_pb2, type_pb2])
def test_googles_own_files_come_back_as_they_were(module: object) -> None:
    sent: bytes = module.DESCRIPTOR.serialized_pb  # type: ignore[attr-defined] # each module has one

    text = protobuf_text(base64.b64encode(sent).decode(), {})

    assert compile_schema(text, {}).text == text


def test_what_is_imported_is_looked_for_by_its_name() -> None:
    opinions = compile_schema('syntax = "proto3"; package o; message Opinion { string text = 1; }', {})
    text = 'syntax = "proto3"; import "o/opinions.proto"; message Order { o.Opinion opinion = 1; }'

    found = compile_schema(text, {"o/opinions.proto": opinions.descriptor})

    assert ".o.Opinion opinion = 1;" in found.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3";\nmessage A {\n  foo y = 1;\n}', 'line 3, column 3: "foo" is not defined'),
        ('syntax = "proto3"; message A { int32 x = 0; bar y = 1; }', 'column 45: "bar" is not defined'),
        ('syntax = "proto3"; import "x/y.proto";', "x/y.proto: File not found"),
        ('syntax = "proto3"; import "/etc/passwd";', "/etc/passwd: File not found"),
        ('syntax = "proto3"; import "../../x";', "not allowed"),
        ('syntax = "proto3"; import "the..schema.proto";', "imports itself"),
        ("message A {" * 10_000, "recursion limit"),
        ("no schema", "line 1, column 1"),
        ('edition = "2024"; message A {}', "2023"),
        ("\x00", "line 1, column 1"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        compile_schema(text, {})

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "file",
    [
        FileDescriptorProto(message_type=[DescriptorProto(name="A {} message B")]),
        FileDescriptorProto(dependency=["x.proto"]),
        FileDescriptorProto(syntax="proto9"),
        FileDescriptorProto(message_type=[DescriptorProto(name="A"), DescriptorProto(name="A")]),
    ],
)
def test_a_descriptor_that_no_text_says_is_refused(file: FileDescriptorProto) -> None:
    with pytest.raises(ValueError, match="its descriptor is none"):
        protobuf_text(base64.b64encode(file.SerializeToString()).decode(), {})
