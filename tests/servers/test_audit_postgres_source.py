"""A PostgreSQL source and its warehouse, compared by an audit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb
import pytest

from penstock.adapters.postgres.source.identity import read_end_of_seen
from penstock.config.audits import AuditSpec
from penstock.jobs.in_process import carry
from penstock.wiring.audit import run_audit
from penstock.wiring.audit_repair import ask_for_repairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.servers.postgres_chain import PostgresChain

    from penstock.core.audit.findings import TableFindings
    from penstock.core.audit.report import AuditReport

_WAIT_SECONDS = 120.0
_ODD = """
CREATE TABLE odd (
    ok boolean, code char(5), PRIMARY KEY (ok, code), note text, price numeric(12,2), free numeric, f real,
    d double precision, raw bytea, at timestamptz, moment timestamp(3), day date, clock time, doc jsonb, who uuid,
    host inet, span interval, bits bit(5), words text[], mood mood, pair pair
)
"""
_ARRAYS = {
    "smallint": "'{{1,-2},{3,NULL}}'",
    "integer": "'{2147483647,0}'",
    "bigint": "'{}'",
    "numeric(6,2)": "'{1.5,-0.00,NaN}'",
    "real": "'{1.1,-0,1e30,Infinity}'",
    "double precision": "'{0.1,-1e-300,NaN}'",
    "boolean": "'{t,f,NULL}'",
    "jsonb": """ARRAY['{"a": [1, "x,}"]}', 'null', '1.50']::jsonb[]""",
    "json": """ARRAY['{"a" : [1,  2]}', ' "x" ', 'null']::json[]""",
    "text": r"""ARRAY[E'a"b\\c\n\u0001\u007f/é𝄞', '', NULL, 'NULL', '{,}']""",
    "varchar(9)": "'{a b,\" \"}'",
    "char(3)": "'{a,b }'",
    "bytea": r"ARRAY['\x00ff'::bytea]",
    "uuid": "'{0F8FAD5B-D9CB-469F-A165-70867728950E}'",
    "date": "'{2024-02-29,infinity,0044-03-15 BC}'",
    "timestamp": "'{2024-02-29 12:00:00.5,-infinity}'",
    "timestamp(0) with time zone": "'{2024-02-29 12:00:00+02,NULL}'",
    "time": "'{12:00:00.25}'",
    "interval": "'{1 mon -1 day,00:00:01.5}'",
    "inet": "'{10.0.0.1,10.0.0.1/8,::1}'",
    "cidr": "'{10.0.0.0/8}'",
    "macaddr": "'{08:00:2b:01:02:03}'",
    "bit(3)": "'{101}'",
    "money": "'{$1.50}'",
    "point": "'{\"(1,2)\"}'",
    "box": "'{(1,1),(0,0);(2,2),(1,1)}'",
    "int4range": "'{\"[1,3)\",empty}'",
    "tstzrange": "ARRAY[tstzrange('2024-01-01 00:00:00+01', NULL)]",
    "tsvector": "ARRAY['a:1 b:2'::tsvector]",
    "time with time zone": "'{12:00:00.25+02}'",
    "xml": """ARRAY['<a b="c">&amp;</a>']::xml[]""",
    "macaddr8": "'{08:00:2b:01:02:03:04:05}'",
    "bit varying(5)": "'{101,1}'",
    "line": "'{\"{1,2,3}\"}'",
    "lseg": "'{\"[(1,2),(3,4.5)]\"}'",
    "path": '\'{"((1,2),(3,4))","[(1,2)]"}\'',
    "polygon": "'{\"((1,2),(3,4),(0,0))\"}'",
    "circle": "'{\"<(1,2),3>\"}'",
    "int8range": '\'{"[1,3)","(,)"}\'',
    "numrange": "'{\"(1.50,3]\"}'",
    "daterange": "'{\"[2024-01-01,2024-02-01)\"}'",
    "tsrange": "ARRAY[tsrange('2024-01-01 00:00:00.5', 'infinity')]",
}
_ODD_ROWS = (
    """INSERT INTO odd VALUES (true, 'a', 'é|', 1.5, 1e30, 'NaN', 'Infinity', '\\x00ff', '2024-02-29 12:00:00.5+02',
       '2024-02-29 12:00:00.125', '0099-01-01', '24:00:00', '{"a": 1.0}', gen_random_uuid(), '10.0.0.1', '1 mon',
       B'10101', '{a,NULL}', 'glad', '(1,)')""",
    "INSERT INTO odd (ok, code, note, f, d) VALUES (false, 'a', '', 1.1, -0.1), (false, 'b ', NULL, 0, 1e300)",
)
_TABLES = (
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    "CREATE TYPE pair AS (one int, other text)",
    _ODD,
    "CREATE TABLE rows (id int PRIMARY KEY, v text)",
    "CREATE TABLE heirs (more text, PRIMARY KEY (id)) INHERITS (rows)",
    "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE switch (ok boolean PRIMARY KEY, v text)",
    "CREATE COLLATION of_any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    'CREATE TABLE named (a text COLLATE "und-x-icu", b text COLLATE of_any_case, v text, PRIMARY KEY (a, b))',
    "INSERT INTO named VALUES ('é', 'É', 'one'), ('e', 'b', 'two')",
    *_ODD_ROWS,
    "INSERT INTO rows SELECT i, 'v' || i FROM generate_series(-500, 500) i",
    "INSERT INTO heirs VALUES (7, 'an heir', 'x')",
    "INSERT INTO parts VALUES (1, 'one'), (99, 'last')",
    "INSERT INTO switch VALUES (true, 'on'), (false, 'off')",
)


def _report(
    chain: PostgresChain, wait_seconds: float = 0.5, where: Mapping[str, str] = MappingProxyType({})
) -> AuditReport:
    spec = AuditSpec(source=chain.spec.sources[0].name, sink="wh", wait_seconds=wait_seconds, where=dict(where))
    return run_audit(chain.spec, spec, lambda _: None)


def _audit(chain: PostgresChain) -> dict[str, TableFindings]:
    return {found.table: found for found in _report(chain).tables}


def _carry_and_report(chain: PostgresChain, where: Mapping[str, str] = MappingProxyType({})) -> AuditReport:
    """Let the capture go on while the audit waits: the server's log grows all the time, by what others do there."""
    ended, spec = Event(), chain.spec

    def capture() -> None:
        while not ended.is_set():
            carry(spec, spec.sources[0].name)

    chain.carry()
    with ThreadPoolExecutor(1) as threads:
        capturing = threads.submit(capture)
        try:
            report = _report(chain, _WAIT_SECONDS, where)
        finally:
            ended.set()
        capturing.result()
    assert not any(table.state == "lagging" for table in report.tables)
    return report


def _carry_and_audit(chain: PostgresChain) -> dict[str, TableFindings]:
    return {found.table: found for found in _carry_and_report(chain).tables}


def test_an_audit_of_postgres_finds_equal_what_is_and_names_what_is_not(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    equal = _carry_and_audit(chain)

    path = chain.file.parent / chain.name / "wh.duckdb"
    with closing(duckdb.connect(str(path))) as warehouse:
        warehouse.execute("UPDATE public.rows SET v = 'other' WHERE id = -3")
        warehouse.execute("DELETE FROM public.odd WHERE NOT ok = 1 AND code LIKE 'b%'")
        warehouse.execute("UPDATE public.switch SET v = 'off' WHERE ok = 1")
        warehouse.execute("UPDATE public.named SET b = 'é' WHERE v = 'one'")
    wrong = _carry_and_audit(chain)

    assert {table: (found.state, found.why) for table, found in equal.items()} == {
        f"public.{name}": ("equal", "") for name in ("odd", "rows", "heirs", "parts", "switch", "named")
    }
    assert equal["public.parts"].source_rows == 2
    assert equal["public.rows"].source_rows == 1001
    assert not equal["public.odd"].not_compared
    assert [(row.key, row.state) for row in wrong["public.rows"].rows] == [(("-3",), "different")]
    assert [(row.key, row.state) for row in wrong["public.odd"].rows] == [(("0", "b    "), "missing")]
    assert [(row.key, row.columns) for row in wrong["public.switch"].rows] == [(("1",), {"v": ("on", "off")})]
    named = {(row.key, row.state) for row in wrong["public.named"].rows}
    assert named == {(("é", "É"), "missing"), (("é", "é"), "extra")}


@pytest.mark.nightly
def test_a_query_that_the_source_ends_is_told_as_that_and_the_next_table_is_read(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    chain.write("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")

    found = {each.table: each for each in _carry_and_report(chain, {"public.a": "1 / (id - id) > 0"}).tables}

    assert found["public.a"].state == "failed"
    assert "division by zero" in found["public.a"].why
    assert found["public.b"].state == "equal"


@pytest.mark.nightly
def test_arrays_are_compared_but_for_those_of_types_that_users_made(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    columns = [f"c{number} {type_}[]" for number, type_ in enumerate(_ARRAYS)]
    chain = make_postgres(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        f"CREATE TABLE sets (id int PRIMARY KEY, {', '.join(columns)}, moods mood[], oids oid[])",
        "CREATE TABLE by_set (words text[] PRIMARY KEY)",
        f"INSERT INTO sets VALUES (1, {', '.join(_ARRAYS.values())}, '{{sad}}', '{{1}}')",
        "INSERT INTO sets (id) VALUES (2)",
        "INSERT INTO by_set VALUES ('{a}')",
    )
    equal = _carry_and_audit(chain)
    with closing(duckdb.connect(str(chain.file.parent / chain.name / "wh.duckdb"))) as warehouse:
        for number in range(len(_ARRAYS)):
            warehouse.execute(f"UPDATE public.sets SET c{number} = '[[]]' WHERE id = 1")
    wrong = _carry_and_audit(chain)["public.sets"]

    assert (equal["public.sets"].state, equal["public.sets"].why) == ("equal", "")
    assert [each.column for each in equal["public.sets"].not_compared] == ["moods", "oids"]
    assert "the column words, which is not compared: rows are not found by an array" in equal["public.by_set"].why
    ((key, state, found),) = [(row.key, row.state, row.columns) for row in wrong.rows]
    assert (key, state, set(found)) == (("1",), "different", {f"c{number}" for number in range(len(_ARRAYS))})
    assert found["c0"] == ("[[1,-2],[3,null]]", "[[]]")


@pytest.mark.nightly
def test_what_an_audit_finds_is_repaired_by_reading_those_rows_again(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(*_TABLES)
    chain.carry()
    path = chain.file.parent / chain.name / "wh.duckdb"
    with closing(duckdb.connect(str(path))) as warehouse:
        warehouse.execute("UPDATE public.rows SET v = 'other' WHERE id = -3")
        warehouse.execute("INSERT INTO public.rows SELECT * REPLACE (777 AS id) FROM public.rows WHERE id = 1")
        warehouse.execute("DELETE FROM public.odd WHERE NOT ok = 1 AND code LIKE 'b%'")
        warehouse.execute("UPDATE public.switch SET v = 'off' WHERE ok = 1")
        warehouse.execute("UPDATE public.named SET b = 'é' WHERE v = 'one'")

    asked = ask_for_repairs(chain.spec, [_carry_and_report(chain)]).snapshots
    repaired = _carry_and_audit(chain)

    assert {each.table for each in asked} == {"public.rows", "public.odd", "public.switch", "public.named"}
    assert {found.state for found in repaired.values()} == {"equal"}


@pytest.mark.nightly
def test_an_audit_waits_for_the_place_of_its_snapshot(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    chain.carry()
    chain.write("INSERT INTO t VALUES (2)")

    behind = _audit(chain)
    caught_up = _carry_and_audit(chain)

    assert behind["public.t"].state == "lagging"
    assert "has not reached" in behind["public.t"].why
    assert caught_up["public.t"].state == "equal"


def test_a_commit_that_was_not_flushed_is_before_the_place_of_who_sees_it(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY)")
    with closing(chain.connect()) as writer, closing(chain.connect()) as reader, closing(chain.connect()) as other:
        # What an open transaction has written is not flushed, and nobody waits for it.
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (0)")
        writer.execute("SET synchronous_commit = off")
        writer.execute("INSERT INTO t VALUES (1)")
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        seen = reader.execute("SELECT count(*) FROM t").fetchone()
        place = read_end_of_seen(reader)
        flushed = reader.execute("SELECT pg_current_wal_flush_lsn() >= %s::text::pg_lsn", (f"0/{place:X}",)).fetchone()

    assert seen == (1,)
    assert flushed == (True,)
    assert place > 0
