"""Random tables and statements on PostgreSQL: who follows the log has what a SELECT returns, or was stopped.

Short as a test; `make fuzz` goes on for longer.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.followed_postgres import FollowedPostgres
from tests.servers.postgres_source_case import SourceDatabase, source_database
from tests.servers.postgres_story_teller import PostgresTeller
from tests.servers.postgres_words import COMMON, STORIES, TYPES_MADE

from penstock.adapters.postgres.source.ddl_trigger import ensure_ddl_trigger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.adapters.postgres.source.stream import WalStream
    from penstock.dev.postgres import PostgresServer

_SETTINGS: Final = settings(
    # Every example is a conversation with a server of a quarter of a second.
    max_examples=max(4, settings().max_examples // 5),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_STEP: Final = 8
_IDENTITIES: Final = ("DEFAULT", "FULL")


@dataclass(frozen=True)
class Story:
    """A table, its rows, and how they are written: all at once, or each in a transaction of its own."""

    columns: tuple[str, ...]
    added: str
    rows: tuple[tuple[str, ...], ...]
    identity: str
    is_together: bool


@st.composite
def stories(draw: st.DrawFn) -> Story:
    columns = draw(st.lists(st.sampled_from(sorted(COMMON)), min_size=1, max_size=6))
    added = draw(st.sampled_from(sorted(COMMON)))
    row = st.tuples(*(st.just("NULL") | COMMON[declared] for declared in (*columns, added)))
    rows = draw(st.lists(row, min_size=2, max_size=30))
    return Story(tuple(columns), added, tuple(rows), draw(st.sampled_from(_IDENTITIES)), draw(st.booleans()))


def _statements(story: Story) -> Iterator[str]:
    """Insert all, update and move some, delete some; alter; insert and update again."""
    width = len(story.columns)
    names = ", ".join(f"c{index}" for index in range(width))
    yield f"INSERT INTO t (id, {names}) VALUES " + ", ".join(
        f"({number}, {', '.join(row[:width])})" for number, row in enumerate(story.rows)
    )
    for number, row in enumerate(story.rows[::3]):
        changes = ", ".join(f"c{index} = {value}" for index, value in enumerate(row[:width]))
        yield f"UPDATE t SET {changes} WHERE id = {number}"
    yield "INSERT INTO t (id) VALUES (500), (501)"
    yield f"UPDATE t SET c0 = {story.rows[0][0]} WHERE id % 2 = 0"
    yield "UPDATE t SET id = id + 10000 WHERE id % 7 = 3"
    yield "DELETE FROM t WHERE id % 5 = 4"
    yield f"ALTER TABLE t ADD COLUMN c{width} {story.added}"
    yield f"INSERT INTO t (id, {names}, c{width}) VALUES " + ", ".join(
        f"({number + 1000}, {', '.join(row)})" for number, row in enumerate(story.rows)
    )
    yield f"UPDATE t SET c{width} = {story.rows[0][width]} WHERE id < 1005"


@pytest.fixture(scope="module")
def followed(postgres: PostgresServer) -> Iterator[tuple[SourceDatabase, WalStream]]:
    """A database, and the end of its log."""
    with source_database(postgres, "postgres_fuzz") as source:
        source.connection.prepare_threshold = None
        source.execute(*TYPES_MADE)
        source.publish()
        ensure_ddl_trigger(source.connection, source.name)
        with source.copy() as copy:
            position = copy.position
        with closing(source.stream(position)) as stream:
            yield source, stream


def _without_tables(source: SourceDatabase) -> None:
    rows = source.connection.execute(
        "SELECT format('DROP TABLE %s CASCADE', c.oid::regclass) FROM pg_class c"
        " WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    source.execute(*(statement for (statement,) in rows))


@given(story=stories())
@_SETTINGS
def test_the_log_decodes_to_what_is_selected(
    followed: tuple[SourceDatabase, WalStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    source, stream = followed
    _without_tables(source)
    declared = ", ".join(f"c{index} {type_}" for index, type_ in enumerate(story.columns))
    with closing(FollowedPostgres.open(source, stream, tmp_path, monkeypatch)) as log:
        source.execute(f"CREATE TABLE t (id int PRIMARY KEY, {declared})")
        source.execute(f"ALTER TABLE t REPLICA IDENTITY {story.identity}")

        if story.is_together:
            with source.connection.transaction():
                source.execute(*_statements(story))
        else:
            source.execute(*_statements(story))
        log.follow()

        assert log.stopped == {}
        log.check()


@given(story=STORIES, reads_ddl_log=st.booleans())
@_SETTINGS
def test_tables_are_followed_or_stopped(
    followed: tuple[SourceDatabase, WalStream],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    story: Sequence[str],
    *,
    reads_ddl_log: bool,
) -> None:
    source, stream = followed
    _without_tables(source)
    session = source.session()
    with (
        closing(FollowedPostgres.open(source, stream, tmp_path, monkeypatch, reads_ddl_log=reads_ddl_log)) as log,
        closing(PostgresTeller(session)) as teller,
    ):
        try:
            for begin in range(0, len(story), _STEP):
                teller.tell(story[begin : begin + _STEP])
                log.follow()
            teller.show()
            log.follow()
            log.check()
        except BaseException:
            hypothesis.note("\n".join([*teller.told, *(f"{t}: {why.error}" for t, why in log.stopped.items())]))
            raise
