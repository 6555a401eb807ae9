"""Random migrations, carried as they come: targets have what those of a pipeline have that begins afterwards."""

from __future__ import annotations

import itertools
import random
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.servers.chain import make_chain
from tests.servers.fresh_databases import fresh_schema, state_database
from tests.servers.migration_words import OF_MYSQL, OF_POSTGRES, Migrations, Words
from tests.servers.postgres_chain import making_chains

from penstock.adapters.postgres.source.slot import drop_slot
from penstock.config.load import load
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.jobs.in_process import carry
from penstock.ports.queries import ReadLimits
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.postgres_server import source_server
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.servers.chain import Chain
    from tests.servers.postgres_chain import PostgresChain

    from penstock.config.specs import PipelineSpec
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

    OpenCase = Callable[[], AbstractContextManager["Case"]]

pytestmark = pytest.mark.nightly

_STORIES: Final = 10
_STEPS: Final = 40
_PARTS: Final = 4
_SETTINGS: Final = settings(
    # An example is two pipelines and a minute, so that there is one, always the same, and it is not made simpler.
    max_examples=1,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
_LATER: Final = "x"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline that has not run yet, whose tables are in `schema` of a source, and a login to a PostgreSQL."""

    chain: Chain | PostgresChain
    schema: str
    words: Words
    target: str

    def pipeline(self, label: str = "", *, late: bool = False) -> PipelineSpec:
        """Write the file of the pipeline, or of another one like it; `late` with a target more."""
        chain, name = self.chain, f"{self.chain.name}{label}"
        head = chain.file.read_text().partition("sinks:")[0]
        for own in (f"pipeline: {chain.name}", f"src_{chain.name}", f"home: {chain.file.parent / chain.name}"):
            head = head.replace(f"{own}\n", f"{own}{label}\n")
        home, rules = chain.file.parent / name, 'columns: {hash: ["*.*.h*"], salt_env: MIGRATIONS_SALT}'
        targets = [
            (f"{{name: wh, kind: duckdb, path: {home}/wh.duckdb}}", "to: wh"),
            (f"{{name: hashed, kind: duckdb, path: {home}/hashed.duckdb}}", f"to: hashed, {rules}"),
            (f"{{name: pg, kind: postgres, {self.target}}}", f"to: pg, schema: {name}"),
            *([(f"{{name: late, kind: duckdb, path: {home}/late.duckdb}}", "to: late")] if late else []),
        ]
        sinks = "".join(f"  - {sink}\n" for sink, _ in targets)
        links = "".join(f"  - {{from: src_{name}, {link}}}\n" for _, link in targets)
        file = chain.file.with_name(f"{name}.yaml")
        file.write_text(f"{head}sinks:\n{sinks}links:\n{links}")
        return load(file)


@pytest.fixture(params=["mariadb", "postgres"])
def open_case(
    request: pytest.FixtureRequest,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OpenCase:
    """What opens a case with an empty database of its own, for each example."""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    mariadb: MariadbServer = request.getfixturevalue("mariadb")
    monkeypatch.setenv("MIGRATIONS_SALT", "0123456789abcdef")
    monkeypatch.setenv("MIGRATIONS_PASSWORD", postgres.password)
    login = f"host: {postgres.host}, port: {postgres.port}, user: {postgres.user}, password_env: MIGRATIONS_PASSWORD"

    @contextmanager
    def opened() -> Iterator[Case]:
        name = f"{fresh_name}_{next(_numbers)}"
        target = f"{login}, database: {name}_target"
        with state_database(postgres, f"{name}_target"):
            if request.param == "mariadb":
                with fresh_schema(mariadb, name):
                    yield Case(make_chain(tmp_path, name, mariadb, chain_parts), name, OF_MYSQL, target)
                return
            with making_chains(tmp_path, name, postgres, chain_parts[:2]) as make:
                case = Case(make(more="    ddl_trigger: true\n"), "public", OF_POSTGRES, target)
                yield case
                (source,) = case.pipeline(_LATER).sources
                assert isinstance(source, PostgresSourceSpec)
                drop_slot(source_server(source), source.slot_name)

    return opened


@given(seed=st.integers(0, 2**32 - 1))
@_SETTINGS
def test_targets_have_what_those_of_a_later_pipeline_have(open_case: OpenCase, seed: int) -> None:
    with open_case() as case:
        told, tables = migrate(case, random.Random(seed))  # noqa: S311 - not for secrets

        carried, later = case.pipeline(late=True), case.pipeline(_LATER, late=True)
        carry(carried)
        carry(later)

        unlike = {table: why for table in tables if (why := difference(case, (carried, later), table))}
        hypothesis.note("\n".join(each for each in told if any(table.rpartition("_")[0] in each for table in unlike)))
        assert unlike == {}
        assert sum(len(going_on(carried, table)) for table in tables) > len(tables)


def migrate(case: Case, rng: random.Random) -> tuple[list[str], list[str]]:
    """Run random statements, and now and then the pipeline; return the statements, and the tables that there are."""
    carry(case.pipeline())
    stories = [Migrations(random.Random(rng.random()), case.words, f"s{n}") for n in range(_STORIES)]  # noqa: S311 - not for secrets
    told: list[str] = []
    for part in range(_PARTS):
        steps = [statement for _ in range(_STEPS // _PARTS) for story in stories for statement in story.go_on()]
        steps += [statement for story in stories for statement in story.show()]
        case.chain.write(*steps)
        told += steps
        if rng.random() < 0.7:
            carry(case.pipeline(late=part > 1))
    return told, [table for story in stories for table in story.tables]


def difference(case: Case, specs: tuple[PipelineSpec, PipelineSpec], table: str) -> str:
    """Say in which targets of the first pipeline a table is not what it is in those of the second; "" if in none."""
    found = []
    for sink in going_on(specs[0], table):
        here, there = (rows_of(spec, sink, case.schema, table) for spec in specs)
        if here != there:
            found.append(f"{sink} has {here}, and not {there}")
    return "; ".join(found)


def going_on(spec: PipelineSpec, table: str) -> list[str]:
    """Return the targets with all of the tables that may have been called as `table`: some stop, and say so."""
    prefix = table.rpartition("_")[0]
    with closing(open_pipeline_state(spec)) as state:
        stopped = {each.link for each in state.tables() if each.error and f".{prefix}_" in str(each.table)}
    return [link.sink for link in spec.links if not stopped & {link.name, link.source}]


def rows_of(spec: PipelineSpec, sink: str, schema: str, table: str) -> list[list[tuple[str, str]]]:
    """Return a target's rows with the names of columns, neither in an order that counts."""
    where = f'"{spec.pipeline if sink == "pg" else schema}"."{table}"'
    rows = sql_kind(spec, spec.sink(sink)).query(f"SELECT * FROM {where}", ReadLimits()).rows.to_pylist()
    return sorted(sorted((name, repr(value)) for name, value in row.items()) for row in rows)
