"""Tables of Snowflake without a landing zone, beside what every kind of target does; and audits of them."""

from __future__ import annotations

import hashlib
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain
from tests.servers.sink_case import (
    FIRST,
    INT,
    SCHEMAS,
    TABLE,
    rows_in,
    schema,
    schema_change,
    snowflake_target,
    write_batch,
)
from tests.servers.snowflake_case import Landed, lead_to_snowflake

from penstock.adapters.snowflake.audited import AuditedSnowflake
from penstock.config.audits import AuditSpec
from penstock.core.audit.minhash import hashes
from penstock.core.audit.queries import Within, minima_query, read_minima, read_signatures, signature_query
from penstock.core.audit.side import AuditColumn, AuditSide
from penstock.core.errors import RefusedStatementError, TableStoppedError, TableWaitsError
from penstock.core.schema_changes import Move
from penstock.core.tables import TableId
from penstock.links.warehouse.merges import Merges
from penstock.wiring.audit import run_audit
from penstock.wiring.zone_status import zone_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.servers.sink_case import Place

    from penstock.core.audit.dialects import Kind
    from penstock.dev.snowflake import SnowflakeServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.ports.warehouse import Value


@pytest.fixture
def place(snowflake_place: Place) -> Place:
    """A database of a Snowflake."""
    return snowflake_place


MORE = replace(FIRST, columns=(*FIRST.columns, *schema(size=INT).columns[1:]))


def test_a_definition_that_is_refused_stops_its_table_and_is_done_once_that_is_mended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, schemas = place.open(), {**SCHEMAS, 4: MORE}
    sink.load(TABLE, [schema_change(1), place.batch(0, [("c", "a", 1)])], schemas)
    run = type(sink._warehouse).run
    with monkeypatch.context() as patch:

        def refuse(self: object, statement: str, values: Sequence[Value] = ()) -> None:
            if " ADD COLUMN " in statement:
                said = "no right to do this"
                raise RefusedStatementError(said, "grant it")
            run(self, statement, values)  # type: ignore[arg-type]

        patch.setattr(type(sink._warehouse), "run", refuse)
        with pytest.raises(TableStoppedError, match="no right to do this"):
            sink.load(TABLE, [schema_change(4, 1)], schemas)
    sink.close()

    later = place.open()
    later.load(TABLE, [schema_change(4, 1), place.batch(1, [("c", "b", 2)])], schemas)

    assert list(map(repr, rows_in(later))) == ["('a', 1, None)", "('b', 2, None)"]
    assert later._warehouse.fetch("SELECT COUNT(*) FROM penstock.definitions") == [(0,)]
    assert later._warehouse.fetch('SELECT COUNT(*) FROM "penstock"."staged/shop/shopdb"') == [(0,)]


@pytest.mark.nightly
def test_two_instances_that_load_a_change_log_at_once_write_each_entry_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = replace(FIRST, key=())
    one, other = place.open(), place.open()
    one.load(TABLE, [schema_change(1)], {1: log})
    # What an earlier instance left open is ended before this.
    other.finish(0)
    batch, bring_in = write_batch(place, log, 1, 0, [("a", 1, "c")]), Merges.bring_in

    def wait(self: Merges, *given: object, **named: object) -> None:
        monkeypatch.setattr(Merges, "bring_in", bring_in)
        # Snowflake lets it wait; the stand-in refuses it.
        with suppress(TableWaitsError):
            other.load(TABLE, [batch], {1: log})
        bring_in(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Merges, "bring_in", wait)
    with suppress(TableWaitsError):
        one.load(TABLE, [batch], {1: log})
    other.load(TABLE, [batch], {1: log})

    assert rows_in(one, "SELECT id, qty, _op FROM shop.orders") == [("a", 1, "c")]


@pytest.mark.nightly
def test_two_tables_swap_their_names_and_one_of_them_changes_with_it(place: Place) -> None:
    other = TableId("shop", "others")
    sink = place.open()
    sink.load(TABLE, [schema_change(1), place.batch(0, [("c", "a", 1)])], SCHEMAS)
    away = replace(place.batch(0, [("c", "b", 2)], topic="t.others"), table=other)
    others = {1: replace(FIRST, table=other), 5: replace(MORE, table=other)}
    sink.load(other, [away], others)
    moves = [Move(str(TABLE), str(other), 5), Move(str(other), str(TABLE), 1)]

    sink.rename(moves, (9, 0, 0), {1: FIRST, 5: others[5]})
    sink.rename(moves, (9, 0, 0), {1: FIRST, 5: others[5]})

    assert rows_in(sink) == [("b", 2)]
    assert list(map(repr, rows_in(sink, "SELECT * FROM shop.others"))) == ["('a', 1, None)"]


KINDS: dict[str, tuple[Kind, str, str]] = {
    "i": ("integer", "CAST(-12 AS NUMBER(38, 0))", "-12|"),
    "d": ("decimal", "CAST(-12.50 AS NUMBER(10, 2))", "-12.50|"),
    "f": ("float", "CAST(-0.125 AS FLOAT)", "-125e0|"),
    "g": ("float", "CAST(1e300 AS FLOAT)", "1e301|"),
    "t": ("text", "'\u00e9|x '", "5:\u00e9|x "),
    "b": ("bytes", "TO_BINARY('00ff', 'HEX')", "00ff|"),
    "at": ("date", "CAST('2024-02-29' AS DATE)", "2024-02-29|"),
    "n": ("datetime", "CAST('2024-02-29 23:59:59.000001' AS TIMESTAMP_NTZ(6))", "2024-02-29 23:59:59.000001|"),
    "whole": ("datetime", "CAST('2024-02-29 01:02:03' AS TIMESTAMP_NTZ(6))", "2024-02-29 01:02:03.000000|"),
    "z": ("timestamp", "CAST('2024-02-29 01:02:03 +00:00' AS TIMESTAMP_TZ(6))", "2024-02-29 01:02:03.000000|"),
    "none": ("text", "CAST(NULL AS VARCHAR)", "~"),
}
"""By name: a kind, a value of it in SQL, and what the row's text has of it."""


@pytest.mark.parametrize("name", KINDS)
def test_snowflake_computes_the_words_and_hashes_that_are_defined(audited: AuditedSnowflake, name: str) -> None:
    kind, value, text = KINDS[name]
    rows = f'(SELECT CAST(-9 AS NUMBER(38, 0)) AS "id", {value} AS "{name}") AS t'
    columns = (AuditColumn("id", "integer"), AuditColumn(name, kind))

    side = AuditSide(audited.dialect, rows, columns, columns[:1], "integer")

    found = read_signatures(audited.fetch(signature_query(side, 8, None)))
    minima = read_minima(audited.fetch(minima_query(side, 8, Within((-2,), 8), 5)))

    digest = hashlib.sha256(f"-9|{text}".encode()).hexdigest()
    words = tuple(int(digest[at : at + 8], 16) for at in range(0, 32, 8))
    assert found[-2].sums == words
    assert minima[-2] == hashes(words[3], 5)


@pytest.fixture(scope="module")
def audited(snowflake: SnowflakeServer) -> Iterator[AuditedSnowflake]:
    """A database with nothing in it."""
    with closing(AuditedSnowflake(snowflake_target(snowflake, "audited").account)) as opened:
        yield opened


@pytest.fixture(params=["landing: false"])
def led(
    request: pytest.FixtureRequest,
    snowflake: SnowflakeServer,
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Iterator[Landed]:
    """A pipeline into a sink with these settings."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    there = lead_to_snowflake(chain, snowflake, f", {request.param}")
    with closing(there.connection):
        yield there


@pytest.mark.nightly
@pytest.mark.parametrize("led", ["load_by: copy", "landing: false, load_by: copy"], indirect=True)
def test_rows_that_come_as_files_come_once(led: Landed) -> None:
    chain = led.chain
    chain.write(
        "CREATE TABLE t0 (id INT PRIMARY KEY, note VARCHAR(40), bytes VARBINARY(8))",
        "INSERT INTO t0 VALUES (1, 'it''s \\\\ \U0001f600', x'00ff'), (2, 'a\\nb', NULL), (3, NULL, x'')",
        "CREATE TABLE t1 (id INT PRIMARY KEY, note VARCHAR(40))",
        "INSERT INTO t1 VALUES (1, 'other')",
    )
    chain.start()
    chain.carry()
    # As if the process had ended before it could say that all batches are loaded.
    led.ask('UPDATE "penstock"."batches" SET "next_batch_offset" = 0')
    led.connection.commit()
    chain.write("UPDATE t0 SET note = 'x' WHERE id = 2", "DELETE FROM t0 WHERE id = 3")
    chain.carry()
    if zone_links(chain.spec):
        led.merge()
        assert len(led.messages("t0")) == 5

    assert [led.public(table) for table in ("t0", "t1")] == [led.source(table) for table in ("t0", "t1")]
    of_ours = "table_schema = 'penstock' AND table_name LIKE 'staged%'"
    ((staging,),) = led.ask(f"SELECT table_name FROM information_schema.tables WHERE {of_ours}")
    assert led.ask(f'SELECT COUNT(*) FROM "penstock"."{staging}"') == [(0,)]


@pytest.mark.nightly
def test_a_pipeline_loads_tables_and_an_audit_names_the_row_that_somebody_changed(led: Landed) -> None:
    chain = led.chain
    chain.write(
        "CREATE TABLE t0 (id INT PRIMARY KEY, note VARCHAR(40), price DECIMAL(10,2), at DATETIME(6), weight DOUBLE)",
        "INSERT INTO t0 SELECT seq, CONCAT('n', seq), seq / 4, '2024-02-29 23:59:59.000001', seq / 8 FROM seq_1_to_50",
    )
    chain.start()
    chain.carry()
    chain.write("UPDATE t0 SET note = 'x' WHERE id = 3", "DELETE FROM t0 WHERE id = 4")
    chain.write("ALTER TABLE t0 ADD COLUMN more INT NOT NULL DEFAULT 7", "UPDATE t0 SET more = 8 WHERE id = 5")
    chain.carry()
    assert led.public("t0") == led.source("t0")
    assert zone_links(chain.spec) == []
    chain.mirror()
    spec = AuditSpec(source=chain.source, sink="wh")

    (equal,) = run_audit(chain.spec, spec, lambda _: None).tables
    led.ask(f'UPDATE "{chain.name}"."t0" SET "price" = 0 WHERE "id" = 9')
    (wrong,) = run_audit(chain.spec, spec, lambda _: None).tables

    assert (equal.state, equal.source_rows, equal.target_rows, equal.not_compared) == ("equal", 49, 49, ())
    assert (wrong.state, [row.key for row in wrong.rows]) == ("different", [("9",)])
