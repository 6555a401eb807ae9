"""The names in ZooKeeper by which instances stand in line."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.lock.zookeeper import describe_holder, in_order, line_path


def test_the_path_of_a_pipeline_is_below_the_given_one() -> None:
    assert line_path("", "shop") == "/penstock/shop/leader"
    assert line_path("/prod/cdc", "shop-2_b") == "/prod/cdc/penstock/shop-2_b/leader"


@pytest.mark.parametrize("name", [".", "..", "a/b", "a b", "\x00", "\ud7ff", "schön", "~", "%2E"])
def test_what_zookeeper_does_not_allow_in_a_name_is_encoded(name: str) -> None:
    part = line_path("", name).removeprefix("/penstock/").removesuffix("/leader")

    assert set(part) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%")
    assert unquote(part) == name


@given(st.text(), st.text())
def test_two_pipelines_never_share_a_path(one: str, other: str) -> None:
    assert (line_path("", one) == line_path("", other)) == (one == other)


def test_the_lowest_number_is_first_whatever_the_names_before_it() -> None:
    line = ["bb-instance-0000000010", "zz-instance-0000000002", "a note", "aa-instance-0000000011", "x-instance-7"]

    assert in_order(line) == ["zz-instance-0000000002", "bb-instance-0000000010", "aa-instance-0000000011"]


def test_a_holder_is_told_by_process_machine_and_time() -> None:
    told = json.dumps({"host": "db1", "pid": 47, "since": "2026-01-02 03:04:05 UTC"}).encode()

    assert describe_holder(told) == "pid 47 on db1 since 2026-01-02 03:04:05 UTC"


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b"7", b'{"pid": 1, "host": "h"}'])
def test_a_node_that_tells_nothing_is_still_a_holder(data: bytes) -> None:
    assert describe_holder(data) == "an instance that does not say who it is"
