"""Services are called by names, and a wrong name is answered with the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.cli.dev import parse_ports
from penstock.core.errors import UsageError
from penstock.dev.background import Background
from penstock.dev.services import Service, parse_service

if TYPE_CHECKING:
    from pathlib import Path


def test_an_unknown_service_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="oracle is no known service") as raised:
        parse_service("oracle")

    known = "mariadb kafka schematizer spark zookeeper mysql postgres s3 redshift snowflake"
    assert raised.value.hint == f"choose from: {known}"


def test_ports_are_given_by_service() -> None:
    assert parse_ports(["kafka=9092", "mariadb=3306"]) == {Service.KAFKA: 9092, Service.MARIADB: 3306}


@pytest.mark.parametrize("option", ["9092", "kafka", "kafka=", "kafka=x", "kafka=0", "kafka=65536"])
def test_a_port_that_does_not_read_as_one_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"--port {option} is not SERVICE=PORT"):
        parse_ports([option])


def test_nothing_runs_where_nothing_was_started(tmp_path: Path) -> None:
    background = Background(tmp_path / "dev")

    assert background.status(Service.KAFKA) is None
    assert background.down(Service.KAFKA) is False
