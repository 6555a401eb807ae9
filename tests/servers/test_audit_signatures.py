"""What MariaDB, PostgreSQL and DuckDB compute of the same rows."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from tests.servers.audit_case import TARGETS, AuditPlace
from typer.testing import CliRunner

from penstock.cli.audit import app
from penstock.core.audit.findings import row_state, score_of
from penstock.core.audit.minhash import hashes
from penstock.core.audit.queries import (
    Within,
    keys_query,
    minima_query,
    read_minima,
    read_signatures,
    read_sums,
    rows_query,
    signature_query,
    sums_query,
)
from penstock.core.audit.suspects import Suspects, hashes_of, sums_of
from penstock.core.errors import UnfitServerError
from penstock.links.audit.compare import Bounds, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.core.audit.dialects import Kind
    from penstock.core.audit.queries import Signature
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

WORDS: Final = """
ALPHA BRAVO CHARLIE DELTA ECHO FOXTROT GOLF HOTEL INDIA JULIET KILO LIMA MIKE NOVEMBER OSCAR PAPA QUEBEC ROMEO
SIERRA TANGO UNIFORM VICTOR WHISKEY XRAY YANKEE ZULU LOREM IPSUM DOLOR SIT AMET CONSECTETUR
""".split()  # noqa: SIM905 - 32 words are read more easily so
COLUMNS: Final = (("id", "integer"), ("word", "text"))


@pytest.fixture
def place(tmp_path: Path, fresh_name: str, mariadb: MariadbServer, postgres: PostgresServer) -> Iterator[AuditPlace]:
    """Three databases that are empty."""
    made = AuditPlace(fresh_name, tmp_path, mariadb, postgres)
    yield made
    made.drop()


@pytest.mark.parametrize("target", TARGETS)
def test_two_changed_words_of_32_score_0_9375_between_0_6875_and_1(place: AuditPlace, target: str) -> None:
    rows = ", ".join(f"({number}, '{word}')" for number, word in enumerate(WORDS))
    place.create(dict.fromkeys(("mariadb", "postgres", "duckdb"), "id INTEGER, word VARCHAR(20)"))
    for database in ("mariadb", target):
        place.run(database, f"INSERT INTO {{t}} VALUES {rows}")
    place.run(target, "UPDATE {t} SET word = 'JPARKIE' WHERE id IN (16, 24)")

    found = compare(place.pair(target, COLUMNS, "integer", "classic"), Bounds(partition_size=8, k=4))

    matching = {number: _matching(both) for number, both in found.unequal.items()}
    score, unequal = score_of(found, found.suspects, Suspects.of(()), 4)
    assert (found.equal, matching, unequal) == (2, {2: 3, 3: 4}, 2)
    assert (score.score, score.lower, score.upper) == (0.9375, 0.6875, 1.0)
    assert sorted((each.key, row_state(each.source, each.target)) for each in found.suspects) == [
        (("16",), "different"),
        (("24",), "different"),
    ]


@pytest.mark.parametrize(("source", "target"), [("mariadb", "duckdb"), ("duckdb", "postgres")])
def test_any_two_databases_are_compared_by_url(
    place: AuditPlace, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ", ".join(f"({number}, '{word}')" for number, word in enumerate(WORDS))
    place.create(dict.fromkeys(("mariadb", "postgres", "duckdb"), "id INTEGER, word VARCHAR(20)"))
    for database in (source, target):
        place.run(database, f"INSERT INTO {{t}} VALUES {rows}")
    place.run(target, "UPDATE {t} SET word = 'JPARKIE' WHERE id IN (16, 24)")
    monkeypatch.setenv("AUDIT_PASSWORD", place.mariadb.password if source == "mariadb" else place.postgres.password)
    variable = ["--from-password-env" if source == "mariadb" else "--to-password-env", "AUDIT_PASSWORD"]
    given = ["--from", place.url(source), "--to", place.url(target), "--table", f"{place.name}.t", *variable]

    done = CliRunner().invoke(
        app, [*given, "--key", "id", "--form", "classic", "--partition-size", "8", "--k", "4", "--json"]
    )

    assert done.exit_code == 3, done.output
    (found,) = json.loads(done.stdout)["tables"]
    assert (found["partitions_equal"], found["partitions_unequal"]) == (2, 2)
    assert (found["score"], found["lower"], found["upper"]) == (0.9375, 0.6875, 1.0)
    assert {row["key"][0]: row["columns"]["word"] for row in found["rows"]} == {
        "16": {"source": "QUEBEC", "target": "JPARKIE"},
        "24": {"source": "YANKEE", "target": "JPARKIE"},
    }


@pytest.mark.parametrize("database", ["mariadb", *TARGETS])
def test_every_database_computes_the_words_and_hashes_that_are_defined(place: AuditPlace, database: str) -> None:
    _check_signatures(place, database)


def test_mysql_computes_them_too(
    tmp_path: Path, fresh_name: str, mysql_server: OracleMysql, postgres: PostgresServer
) -> None:
    place = AuditPlace(fresh_name, tmp_path, mysql_server, postgres)

    _check_signatures(place, "mariadb")

    place.drop()


def test_what_is_infinite_or_before_the_year_1_is_no_null_and_no_other_date(place: AuditPlace) -> None:
    moments: list[tuple[str, Kind]] = [
        ("id", "integer"),
        ("day", "date"),
        ("moment", "datetime"),
        ("instant", "timestamp"),
    ]
    types = "id INTEGER, day DATE, moment TIMESTAMP, instant TIMESTAMPTZ"
    place.create({"mariadb": "id INTEGER", "postgres": types, "duckdb": types})
    infinite = ("NULL", "'infinity'", "'-infinity'")
    days = {"postgres": "'0044-03-15 BC'", "duckdb": "'0044-03-15 (BC)'"}
    found: dict[str, list[tuple[str | None, ...]]] = {}

    for target, before in days.items():
        listed = enumerate((*infinite, "'0044-03-15'", before))
        rows = ", ".join(f"({number}, {each}, {each}, {each})" for number, each in listed)
        place.run(target, f"INSERT INTO {{t}} VALUES {rows}")
        opened = place.database(target)
        side = place.side(opened.dialect, moments, "integer", "sha256")
        texts = ", ".join(side.text(column) for column in side.columns[1:])
        found[target] = [tuple(row) for row in opened.fetch(f"SELECT {texts} FROM {side.rows} ORDER BY id")]

    plain = ("0044-03-15", "0044-03-15 00:00:00.000000", "0044-03-15 00:00:00.000000")
    assert found["postgres"][:4] == [(None,) * 3, ("infinity",) * 3, ("-infinity",) * 3, plain]
    assert found["duckdb"][:4] == found["postgres"][:4]
    assert not any(set(rows[4]) & set(plain) for rows in found.values())


def test_a_value_too_long_for_mariadb_to_hash_is_not_taken_for_null(place: AuditPlace) -> None:
    _check_too_long(place)


@pytest.mark.nightly
def test_nor_is_one_too_long_for_mysql(
    tmp_path: Path, fresh_name: str, mysql_server: OracleMysql, postgres: PostgresServer
) -> None:
    place = AuditPlace(fresh_name, tmp_path, mysql_server, postgres)

    _check_too_long(place)

    place.drop()


def _check_too_long(place: AuditPlace) -> None:
    columns: list[tuple[str, Kind]] = [("id", "integer"), ("one", "bytes"), ("other", "bytes")]
    place.create(
        {"mariadb": "id INTEGER, one LONGBLOB, other LONGBLOB", "postgres": "id INTEGER", "duckdb": "id INTEGER"}
    )
    with _packets_of_a_mebibyte(place):
        audited = place.database("mariadb")
    side = place.side(audited.dialect, columns, "integer", "sha256")
    within = Within((0,), 8)
    queries = [
        signature_query(side, 8, None),
        minima_query(side, 8, within, 5),
        sums_query(side, [("1",), ("2",)]),
        keys_query(side, [("1",), ("2",)]),
    ]

    def refusals() -> list[str]:
        audited.renew()
        refused = [_refusal(audited.fetch, query) for query in queries]
        return [*refused, _refusal(audited.fetch_texts, rows_query(side, within, 8))]

    # Of bytes there are two digits each, and a row is hashed as one text.
    place.run("mariadb", "INSERT INTO {t} VALUES (1, REPEAT('x', 260000), REPEAT('x', 260000)), (2, 'x', NULL)")
    fits = refusals()
    place.run("mariadb", "UPDATE {t} SET one = REPEAT('x', 530000), other = NULL WHERE id = 1")
    one_is_too_long = refusals()
    place.run("mariadb", "UPDATE {t} SET one = REPEAT('x', 270000), other = one WHERE id = 1")
    together_too_long = refusals()

    assert fits == [""] * 5
    assert all("max_allowed_packet (1048576)" in why for why in (*one_is_too_long, *together_too_long))


@contextmanager
def _packets_of_a_mebibyte(place: AuditPlace) -> Iterator[None]:
    """Sessions that begin now have that limit."""
    place.run("mariadb", "SET GLOBAL max_allowed_packet = 1048576")
    try:
        yield
    finally:
        place.run("mariadb", "SET GLOBAL max_allowed_packet = 1073741824")


def _refusal(ask: Callable[[str], object], query: str) -> str:
    try:
        ask(query)
    except UnfitServerError as error:
        return error.message
    return ""


def _check_signatures(place: AuditPlace, database: str) -> None:
    place.create(dict.fromkeys(("mariadb", "postgres", "duckdb"), "id INTEGER, word VARCHAR(20)"))
    place.run(database, "INSERT INTO {t} VALUES (-9, 'a'), (-8, NULL), (7, '')")
    opened = place.database(database)

    side = place.side(opened.dialect, COLUMNS, "integer", "sha256")

    found = read_signatures(opened.fetch(signature_query(side, 8, None)))
    minima = read_minima(opened.fetch(minima_query(side, 8, Within((-2, -1, 0), 8), 5)))
    sums = read_sums(opened.fetch(sums_query(side, [("-9",), ("7",), ("1",)])))

    for partition, text in {-2: "-9|1:a", -1: "-8|~", 0: "7|0:"}.items():
        digest = _digest(text)
        words = tuple(int(digest[place : place + 8], 16) for place in range(0, 32, 8))
        assert (found[partition].count, found[partition].sums) == (1, words)
        assert minima[partition] == hashes(words[3], 5)
    assert len(found) == len(minima) == 3
    assert sums == _sums_of([_digest("-9|1:a")], [_digest("7|0:")], [])
    assert sums.sums == tuple(map(sum, zip(found[-2].sums, found[0].sums, strict=True)))
    assert read_sums(opened.fetch(sums_query(side, [("1",)]))) == _sums_of([])


def _sums_of(*rows: list[str]) -> Signature:
    return sums_of(pa.array([hashes_of(hashes) for hashes in rows], pa.binary()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _matching(both: tuple[Signature, Signature]) -> int:
    return sum(a == b for a, b in zip(both[0].minima, both[1].minima, strict=True))
