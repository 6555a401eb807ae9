"""MySQL's binary JSON: documents that no server writes are refused, and cost little."""

from __future__ import annotations

import pytest
from tests.unit.mysql_log.row_encoding import nested_json

from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.json_binary import print_json


def test_documents_are_bounded_in_depth() -> None:
    assert print_json(nested_json(100, 1)) == "[" * 101 + "]" * 101
    with pytest.raises(MalformedError, match="100 levels"):
        print_json(nested_json(101, 1))


@pytest.mark.parametrize("raw", [nested_json(60, 2), b"\x02\x02\0\x0a\0" + b"\x02\0\0" * 2, nested_json(2, 5000)])
def test_a_document_whose_values_overlap_costs_no_more_than_its_size(raw: bytes) -> None:
    with pytest.raises(MalformedError, match=r"overlap|levels"):
        print_json(raw)


@pytest.mark.parametrize(
    ("count", "lines"),
    [(0, [""]), (57, ["A" * 76]), (58, ["A" * 76, "AA=="]), (200, ["A" * 76] * 3 + ["A" * 39 + "="])],
)
def test_bytes_are_broken_into_lines_as_the_server_prints_them(count: int, lines: list[str]) -> None:
    length = bytes([count & 0x7F | 0x80, count >> 7]) if count > 127 else bytes([count])

    assert print_json(b"\x0f\xfc" + length + bytes(count)) == '"base64:type252:' + r"\n".join(lines) + '"'


def test_a_document_with_a_key_twice_is_refused() -> None:
    twice = b"\x00\x02\0\x14\0" + b"\x12\0\x01\0" * 2 + b"\x05\x01\0" * 2 + b"zy"

    with pytest.raises(MalformedError, match="key twice"):
        print_json(twice)
