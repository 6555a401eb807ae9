"""A run waits for servers that are away, for a while, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnavailableError
from penstock.embedded.ports import free_port
from penstock.wiring import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase


def test_a_broker_that_is_away_is_waited_for_and_named(make_case: Callable[..., PipelineCase]) -> None:
    spec = make_case().spec
    away = f"127.0.0.1:{free_port()}"
    spec = spec.model_copy(update={"kafka": spec.kafka.model_copy(update={"bootstrap_servers": away})})
    said: list[str] = []

    with pytest.raises(UnavailableError, match=away):
        waiting.wait_for_servers(spec, said.append, wait_seconds=3.0)

    assert len(said) == 1
    assert "waiting up to 3 s" in said[0]


def test_servers_that_answer_are_not_waited_for(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write("CREATE TABLE t (id INT PRIMARY KEY)")
    said: list[str] = []

    waiting.wait_for_sources(case.spec, said.append)
    waiting.wait_for_servers(case.spec, said.append)

    assert said == []
