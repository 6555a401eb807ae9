"""Stores of large messages: how long their files may take, and what a check of a pipeline says of their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adapters.objects.store import Objects
from penstock.config.load import parse
from penstock.core.errors import SinkError
from penstock.wiring.checks import _examine_objects
from penstock.wiring.open import large_messages, open_large_store, open_object_store

_SOURCE = "{name: db, kind: mysql, host: h, user: u, password_env: P, tables: ['a.*'], large_values: %s}"
_FILE = "pipeline: p\nsources: [%s]\nobjects: {url: '%s'}\n"


@pytest.mark.parametrize("said", ["objects", "stop"])
def test_only_a_large_message_has_minutes_for_its_file_and_one_that_is_read_has_them_whatever_the_source_says_now(
    said: str, tmp_path: Path
) -> None:
    spec = parse(_FILE % (_SOURCE % said, tmp_path.as_uri()), "p.yaml", Path("/"))

    stores = [open_object_store(spec), open_large_store(spec), large_messages(spec, "db").open_store()]

    assert [store._spec.timeout_seconds for store in stores if isinstance(store, Objects)] == [30.0, 300.0, 300.0]


def test_a_check_tries_the_folder_of_large_messages_of_sources_that_keep_them(tmp_path: Path) -> None:
    keeps, stops = (
        parse(_FILE % (_SOURCE % said, tmp_path.as_uri()), "p.yaml", Path("/")) for said in ("objects", "stop")
    )
    assert _examine_objects(keeps) == _examine_objects(stops)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    in_the_way = tmp_path / "p" / "large-messages" / "db"
    in_the_way.rmdir()
    in_the_way.write_bytes(b"")

    with pytest.raises(SinkError, match="p/large-messages/db/check"):
        _examine_objects(keeps)
    _examine_objects(stops)
