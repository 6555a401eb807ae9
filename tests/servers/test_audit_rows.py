"""Random tables in MariaDB, PostgreSQL and DuckDB: equal ones are found equal, and every corruption is named."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.servers.audit_case import TARGETS, AuditPlace
from tests.servers.audit_rows import CORRUPTIONS, KEYS, TYPED, columns, random_rows, render
from tests.servers.kinds import first

from penstock.links.audit.compare import Bounds, compare
from penstock.links.audit.describe import describe_rows
from penstock.links.audit.settle import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.core.audit.dialects import Kind
    from penstock.core.audit.findings import DivergentRow
    from penstock.core.audit.side import Cut
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.links.audit.pair import Pair

ROWS = 240
BOUNDS = Bounds(partition_size=50, k=4)


@pytest.fixture
def place(tmp_path: Path, fresh_name: str, mariadb: MariadbServer, postgres: PostgresServer) -> Iterator[AuditPlace]:
    """Three databases that are empty."""
    made = AuditPlace(fresh_name, tmp_path, mariadb, postgres)
    yield made
    made.drop()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("cut", first(1, *KEYS))
@pytest.mark.parametrize("seed", first(1, 1, *range(2, 12)))
def test_every_corruption_is_named_and_nothing_else(place: AuditPlace, target: str, cut: Cut, seed: int) -> None:
    rng = random.Random(f"{target} {cut} {seed}")  # noqa: S311 - not for secrets
    place.create(columns(cut), ", PRIMARY KEY (id)")
    rows = random_rows(rng, cut, ROWS)
    for database in ("mariadb", target):
        place.run(database, f"INSERT INTO {{t}} VALUES {', '.join(render(database, row, cut) for row in rows)}")
    listed: list[tuple[str, Kind]] = [
        ("id", "text" if cut == "hash" else "integer"),
        *((each.name, each.kind) for each in TYPED),
    ]

    pair = place.pair(target, listed, cut)
    equal = compare(pair, BOUNDS)
    assert [each.key for each in equal.suspects] == []
    assert equal.equal > 1
    assert not equal.unequal

    wrong = _corrupt(place, target, cut, rng)
    found = _audit(pair)

    assert {key: (row.state, tuple(row.columns)) for key, row in found.items()} == wrong


def _audit(pair: Pair) -> Mapping[str | None, DivergentRow]:
    pair.target.renew()
    suspects = compare(pair, BOUNDS).suspects
    looked = settle(pair, suspects, lambda: "")
    return {row.key[0]: row for row in describe_rows(pair, looked.wrong)}


def _corrupt(
    place: AuditPlace, target: str, cut: str, rng: random.Random
) -> dict[str | None, tuple[str, tuple[str, ...]]]:
    """Make some rows of the target wrong, each in one way; return what is to be said of them, by key."""
    database = place.database(target)
    written = database.dialect.texts["text"].format("id")
    table = f"{place.name}.t"
    wrong: dict[str | None, tuple[str, tuple[str, ...]]] = {}

    def choose(condition: str) -> str:
        database.renew()
        keys = [str(key) for (key,) in database.fetch(f"SELECT {written} FROM {table} WHERE {condition}")]
        return rng.choice(sorted(set(keys) - set(wrong)))

    def is_row(key: str) -> str:
        return f"{written} = {database.dialect.text_literal.format(key.encode().hex())}"

    for column, (condition, change) in CORRUPTIONS.items():
        key = choose(condition)
        place.run(target, f"UPDATE {{t}} SET {change} WHERE {is_row(key)}")
        wrong[key] = ("different", (column,))
    key = choose("word <> other")
    place.run(target, f"UPDATE {{t}} SET word = other, other = word WHERE {is_row(key)}")
    wrong[key] = ("different", ("word", "other"))
    key = choose("TRUE")
    place.run(target, f"DELETE FROM {{t}} WHERE {is_row(key)}")
    wrong[key] = ("missing", ())
    new = "2000001" if cut == "integer" else "9223372036854780000"
    names = ", ".join(each.name for each in TYPED)
    place.run(target, f"INSERT INTO {{t}} SELECT {new}, {names} FROM {{t}} WHERE {is_row(choose('TRUE'))}")
    wrong[new] = ("extra", ())
    return wrong
