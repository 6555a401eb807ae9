"""What every kind of store does, on a real server of each: files, cut connections, and what is said when it refuses."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.servers.azurite import container_token
from tests.servers.clouds import CLOUDS
from tests.servers.kinds import on_every_cloud
from tests.servers.sink_case import FIRST, DuckdbTarget, Place

from penstock.adapters.objects.store import Objects, open_objects
from penstock.core.errors import START_ANEW, PenstockError, SinkError, UnavailableError
from penstock.embedded.ports import free_port
from penstock.faults.proxy import Proxy
from penstock.wiring.objects_probe import probe_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.servers.clouds import CloudPlace

KEYS = [
    "shop/a%2Fb/ü 1+2=3&?#.csv.gz",
    "shop/orders/0/1.parquet",
    "shop/orders/0/2.parquet",
    "shop/orders_old/0/1.parquet",
]


@pytest.fixture
def objects(cloud: CloudPlace) -> Objects:
    return open_objects(cloud.spec())


@pytest.fixture
def proxy(cloud: CloudPlace) -> Iterator[Proxy]:
    with Proxy("store", cloud.port) as proxy:
        yield proxy


@pytest.mark.parametrize("cloud", tuple(CLOUDS), indirect=True)
def test_a_store_is_written_read_listed_and_deleted_from(objects: Objects) -> None:
    for key in KEYS:
        objects.put(key, key.encode())
    objects.put(KEYS[1], b"again")

    assert objects.list("shop/orders") == KEYS[1:3]
    assert objects.list("") == objects.list("shop") == KEYS
    assert objects.list("nothing") == []
    assert (objects.get(KEYS[0]), objects.get(KEYS[1])) == (KEYS[0].encode(), b"again")
    assert objects.local_path(KEYS[0]) is None

    objects.delete([*KEYS[:2], "shop/gone"])
    objects.delete([])

    assert objects.list("shop") == KEYS[2:]
    assert not objects.exists(KEYS[0])
    assert objects.exists(KEYS[2])


@on_every_cloud
def test_a_file_that_is_not_there_is_named(objects: Objects) -> None:
    with pytest.raises(SinkError, match=r"cannot read shop/orders/0/1\.parquet") as raised:
        objects.get(KEYS[1])

    assert "\n" not in raised.value.message
    assert raised.value.hint == f"the file is gone: restore it, or {START_ANEW}"


@on_every_cloud
def test_files_that_are_gone_are_no_mistake_in_a_deletion(objects: Objects) -> None:
    objects.put(KEYS[2], b"x")

    objects.delete(KEYS[:1])
    objects.delete(KEYS)

    assert objects.list("") == []


@on_every_cloud
def test_an_empty_file_and_a_large_one_come_back_as_they_were(objects: Objects) -> None:
    large = bytes(range(256)) * (9 << 12)

    objects.put("empty", b"")
    objects.put("large", large)

    assert (objects.get("empty"), objects.get("large")) == (b"", large)


@pytest.mark.nightly
@on_every_cloud
def test_more_files_than_one_answer_lists_or_one_request_deletes(objects: Objects) -> None:
    """S3 lists and deletes a thousand at a time, Azure lists five thousand and deletes 256."""
    keys = sorted(f"shop/{number}" for number in range(1_050))
    for key in keys:
        objects.put(key, b"")

    listed = objects.list("shop")
    objects.delete(keys[1:])

    assert listed == keys
    assert objects.list("shop") == keys[:1]


def test_rows_go_through_a_store_into_a_warehouse(objects: Objects, tmp_path: Path) -> None:
    with closing(Place(DuckdbTarget(tmp_path / "shop.duckdb"), objects)) as place:
        batch = place.batch(0, [("c", "a", 1), ("c", "b", None)])

        place.open().load(batch.table, [batch], {1: FIRST})

        assert place.ask("SELECT id, qty FROM shop.orders ORDER BY id") == [("a", 1), ("b", None)]


def test_a_fit_store_is_told_to_be_and_nothing_is_left_in_it(objects: Objects) -> None:
    assert probe_objects(objects, "shop") == "can be written, read, listed and deleted from"
    assert objects.list("") == []


@on_every_cloud
def test_a_folder_s_store_sees_nothing_beside_it(cloud: CloudPlace, objects: Objects) -> None:
    objects.put("shop/1", b"x")
    beside = open_objects(replace(cloud.spec(), url=f"{cloud.url}_beside"))

    assert beside.list("") == []
    assert not beside.exists("shop/1")
    assert open_objects(replace(cloud.spec(), url=f"{cloud.url}/shop/")).list("") == ["1"]


@on_every_cloud
def test_a_bucket_that_is_missing_is_to_be_created(cloud: CloudPlace) -> None:
    objects = open_objects(cloud.spec(bucket="nosuch"))

    for error in errors_of(objects, deletions=()):
        assert isinstance(error, SinkError)
        assert "create the bucket (the container)" in error.hint
    objects.delete(["gone with it"])


AZURE_REFUSES = "Server failed to authenticate the request"
AZURE_HINT = "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN"


@pytest.mark.parametrize(
    ("cloud", "keys", "said", "hint"),
    [
        ("s3", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch", "these credentials are not the store's"),
        ("s3", {"AWS_ACCESS_KEY_ID": "wrong"}, "InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"),
        ("azure", {"AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}, AZURE_REFUSES, AZURE_HINT),
        ("azure", {"AZURE_STORAGE_ACCOUNT_NAME": "nobody"}, AZURE_REFUSES, AZURE_HINT),
    ],
    indirect=["cloud"],
)
def test_a_store_that_refuses_says_why_for_whatever_is_asked(
    cloud: CloudPlace, keys: Mapping[str, str], said: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    objects = open_objects(cloud.spec())

    for error in errors_of(objects):
        assert isinstance(error, SinkError)
        assert said in error.message
        assert "\n" not in error.message
        assert hint in error.hint


@pytest.mark.parametrize("cloud", ["azure"], indirect=True)
def test_a_shared_access_signature_opens_an_azure_store_until_it_expires(
    cloud: CloudPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", container_token())
    fit = probe_objects(open_objects(cloud.spec()), "shop")
    expired = container_token(-60.0)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", expired)
    objects = open_objects(cloud.spec())

    assert fit == "can be written, read, listed and deleted from"
    for error in errors_of(objects):
        assert isinstance(error, SinkError)
        assert AZURE_HINT in error.hint
        assert expired[-20:] not in error.message


@on_every_cloud
def test_a_store_that_is_away_is_worth_another_try(cloud: CloudPlace) -> None:
    objects = open_objects(cloud.spec(port=free_port(), timeout_seconds=2.0))

    for error in errors_of(objects):
        assert isinstance(error, UnavailableError)
        assert "runs and can be reached" in error.hint


@on_every_cloud
def test_a_store_that_says_nothing_is_given_up_after_a_while(cloud: CloudPlace, proxy: Proxy) -> None:
    objects = open_objects(cloud.spec(port=proxy.port, timeout_seconds=1.0))
    proxy.stall()
    begun = time.monotonic()

    errors = errors_of(objects)

    assert {type(error) for error in errors} == {UnavailableError}
    assert time.monotonic() - begun < 4.0 * len(errors)


@on_every_cloud
def test_a_deletion_that_is_cut_off_is_begun_again(cloud: CloudPlace, objects: Objects, proxy: Proxy) -> None:
    for key in KEYS:
        objects.put(key, b"x")
    through = open_objects(cloud.spec(port=proxy.port))
    proxy.cut_answers(2)

    through.delete(KEYS[:3])
    proxy.cut_answers(1)
    through.delete(KEYS[3:])

    assert objects.list("") == []


@on_every_cloud
def test_writing_reading_and_listing_that_are_cut_off_are_begun_again(cloud: CloudPlace, proxy: Proxy) -> None:
    objects = open_objects(cloud.spec(port=proxy.port))

    proxy.cut_answers(1)
    objects.put("shop/1", b"x")
    proxy.cut_answers(1)
    content = objects.get("shop/1")
    proxy.cut_answers(1)
    listed = objects.list("shop")
    proxy.cut_answers(1)
    there = objects.exists("shop/1")

    assert (content, listed, there) == (b"x", ["shop/1"], True)


@on_every_cloud
def test_a_deletion_that_is_always_cut_off_ends(cloud: CloudPlace, proxy: Proxy) -> None:
    objects = open_objects(cloud.spec(port=proxy.port, timeout_seconds=5.0))
    proxy.cut_answers(1_000)

    with pytest.raises(UnavailableError, match="cannot delete 2 files"):
        objects.delete(KEYS[:2])


def errors_of(objects: Objects, deletions: Sequence[Sequence[str]] = (["x"], ["x", "y"])) -> list[PenstockError]:
    """What writing, reading, listing, a probe and these deletions raise."""
    asked: list[Callable[[], object]] = [
        lambda: objects.put("x", b"1"),
        lambda: objects.get("x"),
        lambda: objects.list("x"),
        lambda: probe_objects(objects, "shop"),
        *(partial(objects.delete, keys) for keys in deletions),
    ]
    found: list[PenstockError] = []
    for ask in asked:
        with pytest.raises(PenstockError) as raised:
            ask()
        found.append(raised.value)
    return found
