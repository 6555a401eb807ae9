"""How far targets are, which decides which files may go, is read beside loads that are under way."""

from __future__ import annotations

from contextlib import closing
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.fresh_databases import state_database

from penstock.config.load import load
from penstock.wiring.files import sink_offsets
from penstock.wiring.sink_kinds.table import sql_kind
from penstock.wiring.warehouses import open_sink

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.dev.postgres import PostgresServer

_SECONDS = 120


@pytest.fixture(params=["duckdb", "postgres"])
def spec(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres: PostgresServer,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> PipelineSpec:
    """A pipeline whose target has loaded the batch topic up to 7."""
    monkeypatch.setenv("CASE_PASSWORD", postgres.password)
    server: dict[str, object] = {
        "host": postgres.host,
        "port": postgres.port,
        "user": postgres.user,
        "password_env": "CASE_PASSWORD",
    }
    sinks: dict[str, dict[str, object]] = {
        "duckdb": {"path": str(tmp_path / "wh.duckdb")},
        "postgres": server | {"database": fresh_name},
    }
    config = {
        "pipeline": fresh_name,
        "home": str(tmp_path / "home"),
        "sources": [{"name": "shopdb", "kind": "mysql", **server, "tables": ["shop.*"]}],
        "sinks": [{"name": "wh", "kind": request.param, **sinks[request.param]}],
        "links": [{"from": "shopdb", "to": "wh"}],
    }
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(config))
    with state_database(postgres, fresh_name, keep=True):
        pass
    found = load(file)
    with closing(open_sink(found, found.links[0])) as sink:
        sink.finish(7)
    return found


def test_a_load_that_is_under_way_holds_nobody_up_who_asks_how_far_the_target_is(spec: PipelineSpec) -> None:
    link = spec.links[0]
    begun, may_end = Event(), Event()

    def load_for_long() -> None:
        with closing(sql_kind(spec, spec.sinks[0]).open(link, serve_queries=False)) as warehouse:

            def work() -> None:
                assert warehouse.fetch("SELECT next_batch_offset FROM penstock.batches") == [(7,)]
                warehouse.run("UPDATE penstock.batches SET next_batch_offset = 9")
                begun.set()
                assert may_end.wait(_SECONDS)

            warehouse.transact(work)

    loading = Thread(target=load_for_long)
    loading.start()
    try:
        assert begun.wait(_SECONDS)

        assert sink_offsets(spec) == {link.name: 7}
    finally:
        may_end.set()
        loading.join()
    assert sink_offsets(spec) == {link.name: 9}
