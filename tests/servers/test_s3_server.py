"""The S3 server for development does what our files need, and refuses as Amazon's does."""

from __future__ import annotations

import dataclasses

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.errors import SinkError, UsageError
from penstock.dev.s3 import S3Server, start_s3


@pytest.fixture
def spec(s3: S3Server, fresh_name: str) -> ObjectsSpec:
    return ObjectsSpec(f"s3://{s3.bucket}/{fresh_name}", s3.endpoint, s3.region, s3.access_key_id, s3.secret_access_key)


def test_files_are_written_listed_and_read_back(spec: ObjectsSpec) -> None:
    objects = open_objects(spec)
    objects.put("a/plus+equals=space ü.csv", b"1,2\n")

    assert objects.list("a") == ["a/plus+equals=space ü.csv"]
    assert objects.get("a/plus+equals=space ü.csv") == b"1,2\n"
    assert not objects.exists("a/other")


def test_a_large_file_goes_up_in_parts(spec: ObjectsSpec) -> None:
    content = bytes(11 << 20)

    obstore.put(open_objects(spec)._store, "large", content, chunk_size=5 << 20)

    assert open_objects(spec).get("large") == content


def test_a_key_that_is_there_is_not_overwritten_where_that_is_asked_for(spec: ObjectsSpec) -> None:
    objects = open_objects(spec)
    objects.put("once", b"first")

    with pytest.raises(AlreadyExistsError):
        obstore.put(objects._store, "once", b"second", mode="create", use_multipart=False)

    assert objects.get("once") == b"first"


@pytest.mark.parametrize(("key", "secret"), [("penstock", "wrong"), ("nobody", "penstock-secret")])
def test_wrong_keys_are_refused(spec: ObjectsSpec, key: str, secret: str) -> None:
    with pytest.raises((SinkError, UsageError)):
        open_objects(dataclasses.replace(spec, access_key_id=key, secret_access_key=secret)).put("never", b"")

    assert not open_objects(spec).exists("never")


@pytest.mark.nightly
def test_files_and_port_outlive_kill_9(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("s3")
    with start_s3(home) as server:
        spec = ObjectsSpec("s3://penstock", server.endpoint, server.region, "penstock", "penstock-secret")
        open_objects(spec).put("kept", b"seven")
        server.kill()

    with start_s3(home) as again:
        assert again.port == server.port
        assert open_objects(spec).get("kept") == b"seven"
