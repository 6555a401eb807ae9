"""A pipeline into Snowflake's stand-in: what landed, folded by key, is what the source has, and so are the tables."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.servers.cut_warehouse import CutError
from tests.servers.snowflake_case import tell_problems

from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.core.errors import ConflictError, UsageError
from penstock.links.warehouse.landing_sink import LandingSink
from penstock.wiring.landing_plans import apply_zones, plan_zones, rebuild_table
from penstock.wiring.warehouses import open_sink

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from tests.servers.chain import Chain
    from tests.servers.snowflake_case import Landed

    from penstock.ports.warehouse import Value


_COLUMNS = "id INT PRIMARY KEY, note VARCHAR(40), price DECIMAL(10,2), at DATETIME(6), bytes VARBINARY(8)"
_DEFINITIONS = 5
_ROW = "'it''s \\\\ \U0001f600', 12.50, '2024-02-29 23:59:59.000001', x'00ff'"


def test_tables_follow_the_source_and_new_ones_and_new_columns_come_by_themselves(landed: Landed) -> None:
    chain = landed.chain
    tables = [f"t{number}" for number in range(4)]
    for table in tables:
        chain.write(f"CREATE TABLE {table} ({_COLUMNS})", f"INSERT INTO {table} VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    landed.merge()
    for table in tables:
        landed.agrees(table)

    chain.write(
        "UPDATE t0 SET note = NULL, price = -1 WHERE id = 1",
        "DELETE FROM t0 WHERE id = 2",
        "UPDATE t1 SET id = 9 WHERE id = 1",
        "ALTER TABLE t2 ADD COLUMN more INT NOT NULL DEFAULT 7",
        f"INSERT INTO t2 VALUES (3, {_ROW}, 8)",
        "TRUNCATE TABLE t3",
        f"INSERT INTO t3 VALUES (5, {_ROW})",
        f"CREATE TABLE late ({_COLUMNS})",
        f"INSERT INTO late VALUES (1, {_ROW}), (2, {_ROW})",
        "DELETE FROM late WHERE id = 1",
    )
    chain.carry()
    landed.merge()

    for table in [*tables, "late"]:
        landed.agrees(table)


def test_messages_that_are_loaded_again_land_once(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    before = landed.messages("t0")
    # As if the process had ended before it could say that all batches are loaded.
    landed.ask('UPDATE "penstock"."batches" SET "next_batch_offset" = 0')
    landed.connection.commit()

    chain.write("UPDATE t0 SET price = 3 WHERE id = 2")
    chain.carry()
    landed.merge()

    after = landed.messages("t0")
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    landed.agrees("t0")


def test_a_load_goes_on_behind_one_that_was_killed_within_its_transaction(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    chain.carry()
    chain.write(f"INSERT INTO t0 VALUES (2, {_ROW})")
    killed = open_sink(chain.spec, chain.spec.links[0])
    assert isinstance(killed, LandingSink)
    left_open = killed._database.transaction(killed._name)
    left_open.__enter__()
    killed._database.run('DELETE FROM "penstock"."positions"')

    chain.carry()
    landed.merge()

    landed.agrees("t0")
    killed.close()


@pytest.mark.nightly
def test_a_table_that_is_dropped_and_made_anew_begins_again(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    chain.write("DROP TABLE t0")
    chain.carry()
    assert landed.public("t0") != []

    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, other INT)", "INSERT INTO t0 VALUES (2, 3)")
    chain.carry()
    landed.merge()

    landed.agrees("t0")


@pytest.mark.nightly
def test_what_is_applied_ahead_of_the_first_rows_and_again_behind_them_changes_nothing(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    planned = [plan.statements for plan in plan_zones(chain.spec)]

    assert [plan.statements for plan in apply_zones(chain.spec)] == planned
    chain.write("ALTER TABLE t0 DROP COLUMN note")
    chain.carry()
    assert [plan.error for plan in apply_zones(chain.spec)] == [""]
    landed.merge()

    landed.agrees("t0")


@pytest.mark.nightly
def test_an_instance_that_slept_while_another_one_loaded_lands_nothing_again(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, transaction, overtaken = landed.chain, SnowflakeDatabase.transaction, list[str]()
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    chain.carry()

    def sleep(self: SnowflakeDatabase, name: str) -> AbstractContextManager[None]:
        if not overtaken:
            overtaken.append(name)
            chain.write("UPDATE t0 SET price = 4 WHERE id = 1")
            chain.carry()
            landed.merge()
        return transaction(self, name)

    chain.write("UPDATE t0 SET price = 3 WHERE id = 1")
    chain.capture()
    chain.write_objects()
    with monkeypatch.context() as patch:
        patch.setattr(SnowflakeDatabase, "transaction", sleep)
        with suppress(ConflictError):
            chain.load()
    chain.carry()
    landed.merge()

    landed.agrees("t0")
    assert len(overtaken) == 1
    assert len(landed.messages("t0")) == len(set(landed.messages("t0"))) == 3


def test_a_table_of_somebody_else_and_one_without_a_key_stop_alone(landed: Landed) -> None:
    chain = landed.chain
    landed.ask(f'CREATE SCHEMA "{chain.name}"')
    landed.ask(f'CREATE TABLE "{chain.name}"."theirs" ("id" NUMBER(38, 0))')
    chain.write("CREATE TABLE bare (x INT)", "INSERT INTO bare VALUES (1)")
    for table in ("theirs", "t0"):
        chain.write(f"CREATE TABLE {table} ({_COLUMNS})", f"INSERT INTO {table} VALUES (1, {_ROW})")
    chain.start()

    chain.carry()
    landed.merge()

    landed.agrees("t0")
    assert landed.public("theirs") == []


@pytest.mark.nightly
def test_readers_get_grants_and_who_else_may_write_to_a_landing_table_is_told(landed: Landed) -> None:
    chain = landed.chain
    chain.file.write_text(chain.file.read_text().replace("warehouse: WH", "warehouse: WH, readers: [ANALYST]"))
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    chain.carry()
    query = "SELECT table_schema, grantee, privilege_type FROM information_schema.table_privileges ORDER BY 1"
    assert landed.ask(query) == [(chain.name, "ANALYST", "SELECT"), ("landing", "ANALYST", "SELECT")]
    assert tell_problems(landed) == []

    landed.ask(f'GRANT INSERT ON TABLE "landing"."{chain.name}.t0" TO ROLE loader')

    assert [text.startswith("the role LOADER has INSERT") for text in tell_problems(landed)] == [True]

    table = f'"landing"."{chain.name}.t0"'
    landed.ask(f'INSERT INTO {table} ("message") SELECT "message" FROM {table}')
    assert [
        plan.error
        for plan in plan_zones(chain.spec)
        if plan.error.startswith("1 messages in its landing table are not")
    ]
    landed.ask(f'DELETE FROM {table} WHERE "topic" IS NULL')
    assert not any("are not Penstock's" in plan.error for plan in plan_zones(chain.spec))


@pytest.mark.nightly
def test_a_task_that_fails_is_told_with_its_error_and_goes_on_once_that_is_mended(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    assert tell_problems(landed) == []

    landed.ask(f'ALTER TABLE "{chain.name}"."t0" RENAME COLUMN "note" TO "theirs"')
    landed.ask(f'EXECUTE TASK "landing"."{chain.name}.t0/task"')
    landed.until_it_ran("FAILED")

    (failed,) = tell_problems(landed)
    assert failed.startswith("the last run of its task failed: ")
    assert "note" in failed
    landed.ask(f'ALTER TABLE "{chain.name}"."t0" RENAME COLUMN "theirs" TO "note"')
    landed.ask(f'ALTER TASK "landing"."{chain.name}.t0/task" SUSPEND')
    (suspended,) = tell_problems(landed)
    assert suspended.startswith("its task is suspended after its last run failed")
    list(apply_zones(chain.spec))
    landed.merge()
    assert tell_problems(landed) == []
    landed.agrees("t0")


@pytest.mark.nightly
def test_a_stale_stream_is_told_and_is_rebuilt_without_loss_and_without_rows_that_are_gone(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    landed.merge()
    chain.write("TRUNCATE TABLE t0", f"INSERT INTO t0 VALUES (3, {_ROW}), (4, {_ROW}), (5, {_ROW})")
    chain.write("DELETE FROM t0 WHERE id = 4", "ALTER TABLE t0 DROP COLUMN note", "DELETE FROM t0 WHERE id = 5")
    chain.carry()
    landed.ask(f'ALTER TABLE "landing"."{chain.name}.t0" SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 0')
    (stale,) = tell_problems(landed)
    assert stale.startswith("its stream is stale")
    assert f"{chain.name}.t0" in {plan.table for plan in plan_zones(chain.spec) if plan.error == stale}

    (rebuilt,) = rebuild_table(chain.spec, f"{chain.name}.t0")
    landed.merge()

    assert rebuilt.statements[1].startswith("CREATE OR REPLACE STREAM")
    assert tell_problems(landed) == []
    landed.agrees("t0")
    with pytest.raises(UsageError, match="has a table t9"):
        list(rebuild_table(chain.spec, "t9"))


@pytest.mark.nightly
def test_a_load_that_ends_before_any_of_its_statements_goes_on_and_lands_nothing_twice(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    cuts = load_with_cuts(chain, monkeypatch)
    chain.write(
        "UPDATE t0 SET price = 3 WHERE id = 2",
        "ALTER TABLE t0 ADD COLUMN more INT NOT NULL DEFAULT 7",
        "UPDATE t0 SET more = 6 WHERE id = 1",
        "ALTER TABLE t0 DROP COLUMN note",
        "INSERT INTO t0 (id, more) VALUES (3, 8)",
        "TRUNCATE TABLE t0",
        # fakesnow answers 1970 for a timestamp that is NULL, so this has one.
        "INSERT INTO t0 VALUES (4, 1.50, '2024-01-01', x'01', 9)",
    )
    cuts += load_with_cuts(chain, monkeypatch)
    landed.merge()

    landed.agrees("t0")
    messages = landed.messages("t0")
    rows = [place for text, *place in messages if "row" in json.loads(str(text))]
    # Two changes of columns and the TRUNCATE are no rows.
    assert (len(rows), len(set(map(tuple, rows))), len(messages)) == (6, 6, 9)
    assert cuts > 30


@pytest.mark.nightly
def test_few_rows_of_several_tables_land_together_and_once_wherever_that_is_cut(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, tables = landed.chain, ["t0", "t1", "t2"]
    for table in tables:
        chain.write(f"CREATE TABLE {table} ({_COLUMNS})", f"INSERT INTO {table} VALUES (1, {_ROW})")
    chain.start()
    assert load_with_cuts(chain, monkeypatch) > len(tables) * _DEFINITIONS
    for table in tables:
        chain.write(f"INSERT INTO {table} VALUES (2, {_ROW}), (3, {_ROW})", f"DELETE FROM {table} WHERE id = 1")

    load_with_cuts(chain, monkeypatch)
    for table in tables:
        chain.write(f"INSERT INTO {table} VALUES (4, {_ROW})")
    begun = transactions_of(chain, monkeypatch)
    landed.merge()

    for table in tables:
        landed.agrees(table)
        assert len(landed.messages(table)) == len(set(landed.messages(table)))
    # One for all tables, and one for how far the link is.
    assert begun == 2


_RENAMED = "id INT PRIMARY KEY, a INT, b VARCHAR(9), price INT, price_new DECIMAL(10,2), c INT"
_RENAMES = (
    "ALTER TABLE t0 RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "INSERT INTO t0 VALUES (2, 8, 'y', 4, 2.25, 6)",
    "ALTER TABLE t0 DROP COLUMN price, RENAME COLUMN price_new TO price",
    "INSERT INTO t0 VALUES (3, 9, 'z', 3.25, 7)",
    "ALTER TABLE t0 RENAME COLUMN c TO d, ADD COLUMN e INT NOT NULL DEFAULT 7",
    "UPDATE t0 SET d = 9 WHERE id = 3",
)


@pytest.mark.nightly
def test_columns_that_swap_names_or_take_that_of_a_dropped_one_keep_their_values(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_RENAMED})", "INSERT INTO t0 VALUES (1, 7, 'x', 3, 1.25, 5)")
    chain.start()
    chain.carry()
    chain.write(*_RENAMES)

    chain.carry()
    landed.merge()

    landed.agrees("t0")
    assert landed.ask('SELECT COUNT(*) FROM "penstock"."definitions"') == [(0,)]


@pytest.mark.nightly
def test_columns_keep_their_values_wherever_their_renames_are_cut(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_RENAMED})", "INSERT INTO t0 VALUES (1, 7, 'x', 3, 1.25, 5)")
    chain.start()
    chain.carry()
    chain.write(*_RENAMES)

    load_with_cuts(chain, monkeypatch)
    landed.merge()

    landed.agrees("t0")
    assert landed.ask('SELECT COUNT(*) FROM "penstock"."definitions"') == [(0,)]


def transactions_of(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bring over what there is, and return how many transactions that took in the target."""
    run, seen = SnowflakeDatabase.run, list[str]()

    def note(self: SnowflakeDatabase, statement: str, values: Sequence[Value] = ()) -> None:
        seen.append(statement)
        run(self, statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(SnowflakeDatabase, "run", note)
        chain.carry()
    return sum(statement.startswith("BEGIN") for statement in seen)


def load_with_cuts(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> int:
    """Load what there is, cut before the first statement, then before the second and so on, until nothing is left."""
    chain.capture()
    chain.write_objects()
    run, left = SnowflakeDatabase.run, [0]

    def cut(self: SnowflakeDatabase, statement: str, values: Sequence[Value] = ()) -> None:
        left[0] -= 1
        if left[0] < 0 and statement != "ROLLBACK":
            raise CutError(statement, "run again")
        run(self, statement, values)

    for statements in count():
        left[0] = statements
        with monkeypatch.context() as patch:
            patch.setattr(SnowflakeDatabase, "run", cut)
            try:
                chain.load()
            except CutError:
                continue
        return statements
    raise AssertionError
