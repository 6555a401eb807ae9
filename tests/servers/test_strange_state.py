"""A state database of another pipeline is explained and not worked with."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.chain import Chain, make_chain
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import UsageError
from penstock.embedded.kafka import start_kafka
from penstock.ports.state import PipelineIdentity
from penstock.wiring.identity import claim_state, require_identity
from penstock.wiring.open import open_pipeline_state, open_topic_log

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path) -> Chain:
    """A pipeline that has run, and whose state is its own."""
    chain = make_chain(tmp_path, fresh_name, mariadb, chain_parts)
    Chain(chain.file, "mysql", mariadb).write(
        f"CREATE DATABASE {fresh_name}", f"CREATE TABLE {fresh_name}.orders (id INT PRIMARY KEY)"
    )
    claim(chain)
    chain.start()
    chain.capture()
    chain.mirror("stopped")
    return chain


def claim(chain: Chain) -> None:
    with closing(open_pipeline_state(chain.spec)) as state:
        claim_state(chain.spec, state)


def check(chain: Chain) -> Result:
    return CliRunner().invoke(app, ["check", str(chain.file), "--connect"])


def test_a_check_looks_at_what_a_pipeline_that_ran_needs(chain: Chain) -> None:
    well = check(chain)
    with chain.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        purge_to(cursor, (cursor.fetchone() or ())[0])
    gone = check(chain)

    assert well.exit_code == 0, well.stdout
    assert "ok    state database: its rows are this pipeline's" in well.stdout
    assert f"ok    source {chain.source}, log: reaches back to " in well.stdout
    assert gone.exit_code == 1
    assert f"WRONG source {chain.source}, log: " in gone.stdout
    assert "was purged: the oldest binlog is" in gone.stdout


def test_a_pipeline_may_start_as_often_as_it_likes(chain: Chain) -> None:
    claim(chain)
    claim(chain)

    with closing(open_pipeline_state(chain.spec)) as state, closing(open_topic_log(chain.spec)) as log:
        assert state.identity() == PipelineIdentity(log.cluster_id(), (chain.source,))


@pytest.mark.nightly
def test_the_same_name_on_another_kafka_is_another_pipeline(chain: Chain, tmp_path: Path) -> None:
    text = chain.file.read_text()
    with start_kafka(tmp_path / "other") as other:
        chain.file.write_text(text.replace(chain.spec.kafka.bootstrap_servers or "", other.bootstrap_servers))

        with pytest.raises(UsageError, match="has its positions in the Kafka cluster") as caught:
            claim(chain)
        checked = check(chain)

        with closing(open_topic_log(chain.spec)) as log:
            assert f"this config leads to {log.cluster_id()}" in caught.value.message
    assert "give one of the two another `pipeline` name" in caught.value.hint
    assert (caught.value.exit_code, checked.exit_code) == (2, 2)
    assert "WRONG state database: pipeline" in checked.stdout
    assert caught.value.message in checked.stdout
    chain.file.write_text(text)
    claim(chain)


def test_the_same_name_with_another_source_is_another_pipeline(chain: Chain) -> None:
    ours = chain.source
    chain.file.write_text(chain.file.read_text().replace(ours, "another"))

    with pytest.raises(UsageError, match=f"has the source {ours}, which this config does not have"):
        claim(chain)

    told = json.loads(CliRunner().invoke(app, ["status", str(chain.file), "--json"]).stdout)
    assert told["healthy"] is False
    assert f"has the source {ours}" in told["problems"][0]["text"]


def test_sources_may_be_added(chain: Chain) -> None:
    known = PipelineIdentity("k", ("a",))

    require_identity(chain.spec, known, PipelineIdentity("k", ("a", "b")))
    require_identity(chain.spec, None, PipelineIdentity("k", ("b",)))


def test_a_state_from_before_identities_is_taken_over(chain: Chain) -> None:
    with closing(open_pipeline_state(chain.spec)) as state:
        state.save_identity(PipelineIdentity("", (chain.source,)))

    claim(chain)


def test_a_password_in_the_urls_of_state_databases_is_not_shown(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAIN_STATE_URL", "postgresql://me:secret@h:1/d")
    chain.file.write_text(f"{chain.file.read_text()}\nstate: {{url_env: CHAIN_STATE_URL}}\n")

    with pytest.raises(UsageError, match="postgresql://me@h:1/d") as caught:
        require_identity(chain.spec, PipelineIdentity("a", ()), PipelineIdentity("b", ()))

    assert "secret" not in str(caught.value)
