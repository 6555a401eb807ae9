from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.statements.origin import what_life_lacks
from penstock.core.tables import TableId

T, U = TableId("a", "t"), TableId("a", "u")
CREATE = "create table t (id int)"

WHOLE = [
    [CREATE],
    [CREATE, "alter table t add x int", "create index i on t (x)"],
    ["drop table if exists t", "create table if not exists t (id int)"],
    ["create database a", "create table if not exists t (id int)"],
    ["drop database if exists a", "create database if not exists a", "create table if not exists t (id int)"],
    ["grant all on *.* to x", "begin", CREATE, "analyze table t"],
    [CREATE, "create table u (id int)", "drop table u", "insert into u values (1)"],
    ["create table u (id int)", "rename table u to v", "alter table v add x int", CREATE],
    [CREATE, "create table t (id int)"],
    [CREATE, "truncate t"],
    [CREATE, "drop table t", CREATE],
    [CREATE, "drop database a", "create database a", CREATE],
    ["create or replace table t (id int)"],
    ["create table u (id int, foreign key (id) references v (id) on delete cascade)", CREATE],
    ["create table t (id int, at timestamp on update current_timestamp, foreign key (id) references u (id))"],
    [CREATE, "drop table if exists t", "create table if not exists t (id int)"],
    [CREATE, "alter table t rename column a to b"],
    [CREATE, "rename table t to v, v to t"],
    [CREATE, "rename table t to v", CREATE],
]
NOT_WHOLE = [
    [],
    ["create table u (id int)"],
    ["create table if not exists t (id int)"],
    ["create database if not exists a", "create table if not exists t (id int)"],
    ["alter table t add x int"],
    [CREATE, "alter table u add x int"],
    [CREATE, "drop table t"],
    [CREATE, "drop database a"],
    [CREATE, "rename table t to v"],
    [CREATE, "alter table t rename to v"],
    [CREATE, "truncate u"],
    [CREATE, "create table u (id int)", "drop table t", "rename table u to t"],
    [CREATE, "create table u (id int)", "rename table t to v, u to t"],
    ["create database a", "rename table b.u to t", "create table if not exists t (id int)"],
    [CREATE, "alter table t drop partition p"],
    [CREATE, "insert into t values (1)"],
    [CREATE, "select f()"],
    ["create table u (id int)", "rename table u to t"],
    ["create or replace table t select 1"],
    ["create table t select 1"],
    [CREATE, "frobnicate"],
    ["create table t (id int, foreign key (id) references u (id) on delete cascade)"],
    ["create table t (id int, foreign key (id) references u (id) on update restrict on delete set null)"],
    ["create table t (id int references u (id) on update cascade)"],
    [CREATE, "alter table t add foreign key (id) references u (id) on delete cascade", "alter table t drop key id"],
]


BOTH_WANTED = [
    [CREATE, "create table u (id int)", "rename table t to v, u to t, v to u"],
    [CREATE, "create table u (id int)", "drop table t", "alter table u rename to t", "create table u (id int)"],
    [CREATE, "create table u (id int)", "truncate u"],
]
NAMES = ("t", "u", "unwanted")
ONE_TABLE = (
    "create table",
    "create table if not exists",
    "create or replace table",
    "drop table if exists",
    "truncate",
)
STORIES = st.lists(
    st.tuples(st.sampled_from(ONE_TABLE), st.sampled_from(NAMES), st.just(""))
    | st.tuples(st.just("rename table"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    max_size=10,
)


def is_whole(statements: list[str], wanted: tuple[TableId, ...] = (T,)) -> bool:
    return not what_life_lacks([(sql, "a") for sql in statements], wanted, lambda table: table in wanted)


@pytest.mark.parametrize("statements", WHOLE)
def test_a_log_that_creates_its_tables_is_whole(statements: list[str]) -> None:
    assert is_whole(statements)


@pytest.mark.parametrize("statements", BOTH_WANTED)
def test_rows_that_are_carried_may_change_their_table(statements: list[str]) -> None:
    assert is_whole(statements, (T, U))


@given(STORIES, st.sets(st.sampled_from(NAMES)))
def test_a_whole_log_tells_all_rows_whatever_was_there_before_it(
    story: list[tuple[str, str, str]], before: set[str]
) -> None:
    log, unknown = play(story, before)

    if is_whole(log, (T, U)):
        assert unknown == {"t": False, "u": False, **{name: unknown[name] for name in unknown if name == "unwanted"}}


def play(story: list[tuple[str, str, str]], before: set[str]) -> tuple[list[str], dict[str, bool]]:
    """Run a story on a server that has the tables `before`.

    Returns the statements that it does not refuse, and for each table in the end
    whether it may have rows that nobody carried.
    """
    log, unknown = [], dict.fromkeys(before, True)
    for verb, name, other in story:
        if verb == "rename table":
            if name not in unknown or other in unknown:
                continue
            unknown[other] = unknown.pop(name) or "unwanted" in {name, other}
        elif verb == "drop table if exists":
            unknown.pop(name, None)
        elif verb == "truncate":
            if name not in unknown:
                continue
            unknown[name] = False
        elif verb == "create or replace table" or name not in unknown:
            unknown[name] = False
        elif verb == "create table":
            continue
        columns = " (id int)" if "create" in verb else f" to {other}" if other else ""
        log.append(f"{verb} {name}{columns}")
    return log, unknown


@pytest.mark.parametrize("statements", NOT_WHOLE)
def test_a_log_that_leaves_any_doubt_is_not_whole(statements: list[str]) -> None:
    assert not is_whole(statements)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["create table u (id int)"], "the log does not have the CREATE TABLE of a.t"),
        (["create table t (id int)", "update t set id = 'secret'"], "which it does not have: update t set ..."),
        (["create table t (p int, foreign key (p) references u (id) on delete cascade)"], "by a foreign key (CASCADE"),
    ],
)
def test_why_a_log_is_not_whole_is_said_without_what_rows_have(statements: list[str], why: str) -> None:
    found = what_life_lacks([(sql, "a") for sql in statements], [T], lambda table: table == T)

    assert why in found
    assert "secret" not in found
