"""PostgreSQL servers that do not let us read their log, or do not have it any more: what is said, and what to type."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from psycopg.errors import InsufficientPrivilege
from tests.servers.postgres_source_case import SourceDatabase, source_database

from penstock.adapters.postgres.source.connection import connect, connect_to_log
from penstock.adapters.postgres.source.ddl_trigger import (
    ensure_ddl_trigger,
    examine_ddl_trigger,
    trigger_statements,
)
from penstock.adapters.postgres.source.initial_snapshot import open_initial_snapshot
from penstock.adapters.postgres.source.preflight import LogAccess, examine_source, require_fit
from penstock.adapters.postgres.source.publication import Publication, ensure_publication
from penstock.adapters.postgres.source.slot import FAILOVER_SINCE, create_slot, ensure_failover, read_slot, require_slot
from penstock.core.errors import LogPurgedError, TableStoppedError, UnavailableError, UnfitServerError
from penstock.core.findings import Finding
from penstock.core.tables import TableId
from penstock.dev.postgres import PASSWORD, start_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.adapters.postgres.connection import PostgresServer as Login
    from penstock.dev.postgres import PostgresServer


@pytest.fixture
def source(postgres: PostgresServer, fresh_name: str) -> Iterator[SourceDatabase]:
    """A database of its own, with a table."""
    with source_database(postgres, fresh_name) as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY)")
        yield database


@pytest.fixture
def modest(source: SourceDatabase) -> Iterator[Login]:
    """Somebody who may read the table, and no more."""
    role = f"modest_{source.name}"
    source.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'", f"GRANT SELECT ON t TO {role}")
    yield replace(source.login, user=role)
    source.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server with room for one slot, which keeps next to no log for it."""
    limits = {"max_replication_slots": "1", "max_slot_wal_keep_size": "1MB"}
    with start_postgres(tmp_path_factory.mktemp("narrow"), settings=limits) as server:
        yield server


def examined(login: Login, *, is_failover: bool = False) -> dict[str, Finding]:
    """What `check` finds, the last of each subject."""
    access = LogAccess(login, login.database, Publication(login.database), is_failover)
    with closing(connect(login)) as connection:
        return {each.subject: each for each in examine_source(connection, access, lambda _: True)}


def fit(login: Login, *, is_failover: bool = False) -> None:
    """What a start asks."""
    with closing(connect(login)) as connection:
        require_fit(connection, LogAccess(login, login.database, Publication(login.database), is_failover))


def test_who_may_not_replicate_is_told_the_servers_own_answer(modest: Login) -> None:
    found = examined(modest)["replication"]

    with pytest.raises(UnfitServerError, match=f"{modest.user} may not read the log: .*(walsender|WAL sender)"):
        fit(modest)
    assert found.level == "error"
    assert found.hint.startswith(f"ALTER ROLE {modest.user} REPLICATION, or on Amazon RDS GRANT rds_replication TO")


def test_a_member_of_a_providers_role_for_replication_is_not_refused_by_the_check(
    source: SourceDatabase, modest: Login
) -> None:
    source.execute("CREATE ROLE rds_replication", f"GRANT rds_replication TO {modest.user}")
    try:
        found = examined(modest)["replication"]
        fit(modest)
    finally:
        source.execute("DROP ROLE rds_replication")

    assert (found.level, found.message) == ("ok", f"{modest.user} may read the log, as a member of rds_replication")
    # This server has no such rule: what it says itself comes to light at the latest when the log is read.
    with pytest.raises(UnfitServerError, match=r"does not let modest_\w+ read the log") as refused:
        connect_to_log(modest)
    assert f"ALTER ROLE {modest.user} REPLICATION" in refused.value.hint


def test_a_table_of_which_row_level_security_may_hide_rows_is_not_copied_but_said(
    source: SourceDatabase, modest: Login
) -> None:
    source.execute(
        f"ALTER ROLE {modest.user} REPLICATION",
        "INSERT INTO t SELECT generate_series(1, 9)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON t USING (id < 3)",
        "CREATE TABLE seen (id int PRIMARY KEY)",
        f"GRANT SELECT ON seen TO {modest.user}",
    )
    source.publish()
    hint = f"ALTER ROLE {modest.user} BYPASSRLS"

    found = examined(modest)["grants"]
    with open_initial_snapshot(modest, source.name, Publication(source.name), lambda _: True, "stop") as copied:
        seen = list(copied.rows(TableId("public", "seen"), 10))
        with pytest.raises(TableStoppedError, match="row level security may hide rows of it") as refused:
            list(copied.rows(TableId("public", "t"), 10))
    with closing(connect(modest)) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute("SELECT count(*) FROM public.t")

    assert (found.level, found.hint) == ("error", hint)
    assert "row level security may hide rows of it" in found.message
    assert seen == []
    assert refused.value.hint.startswith(hint)


def test_who_may_make_no_publication_of_all_tables_is_told_so_before_the_first_start(modest: Login) -> None:
    name = modest.database
    with pytest.raises(UnfitServerError, match=f"no publication {name}") as refused, closing(connect(modest)) as made:
        ensure_publication(made, Publication(name))

    found = examined(modest)[f"publication {name}"]

    assert (found.level, found.message, found.hint) == ("warning", refused.value.message, refused.value.hint)
    assert f"as a superuser: CREATE PUBLICATION {name} FOR ALL TABLES" in found.hint


def test_who_may_make_no_event_triggers_is_told_so_and_goes_on_where_others_made_them(
    source: SourceDatabase, modest: Login
) -> None:
    name = source.name
    source.execute(f"CREATE PUBLICATION {name} FOR TABLE t")
    with closing(connect(modest)) as connection:
        with pytest.raises(UnfitServerError, match="may not make event triggers") as refused:
            ensure_ddl_trigger(connection, name)
        assert examine_ddl_trigger(connection, name) == Finding(
            "warning", "ddl_trigger", refused.value.message, refused.value.hint
        )
        # Whoever had made a table of this name before would have its triggers run by a superuser.
        source.execute("CREATE SCHEMA penstock_ddl", "CREATE TABLE penstock_ddl.log (described text)")
        source.execute(*trigger_statements())
        with pytest.raises(UnfitServerError, match=f"the publication {name} lacks penstock_ddl.log") as lacking:
            ensure_ddl_trigger(connection, name)
        source.execute(lacking.value.hint.removeprefix("as its owner: "))

        ensure_ddl_trigger(connection, name)

        assert examine_ddl_trigger(connection, name).level == "ok"
        source.execute("ALTER EVENT TRIGGER penstock_ddl DISABLE")
        assert examine_ddl_trigger(connection, name).level == "warning"
    # Whoever may makes them anew.
    ensure_ddl_trigger(source.connection, name)
    assert examine_ddl_trigger(source.connection, name).level == "ok"


def test_a_slot_that_somebody_reads_is_waited_for(source: SourceDatabase) -> None:
    source.publish()
    with source.copy() as copy:
        start = copy.position

    with closing(source.stream(start)), pytest.raises(UnavailableError, match="is active") as refused:
        source.stream(start)

    assert "it ends soon" in refused.value.hint


def test_failover_slots_are_made_where_there_are_any_and_refused_elsewhere(source: SourceDatabase) -> None:
    name, login = source.name, source.login
    if source.connection.info.server_version < FAILOVER_SINCE:
        with pytest.raises(UnfitServerError, match="has no failover slots") as refused:
            fit(login, is_failover=True)
        assert "take `failover` out" in refused.value.hint
        assert examined(login, is_failover=True)["failover"].level == "error"
        return
    fit(login, is_failover=True)
    with closing(connect_to_log(login)) as log:
        create_slot(login, log, name, failover=False)
    assert "start the pipeline again" in examined(login, is_failover=True)[f"slot {name}"].hint

    ensure_failover(login, name)

    slot = read_slot(source.connection, name)
    assert slot is not None
    assert slot.is_failover
    assert "standbys keep it too" in examined(login, is_failover=True)[f"slot {name}"].message
    source.execute(f"SELECT pg_drop_replication_slot('{name}')")
    with closing(connect_to_log(login)) as log:
        create_slot(login, log, name, failover=True)
    made = read_slot(source.connection, name)
    assert made is not None
    assert made.is_failover


@pytest.mark.nightly
def test_a_server_without_a_free_slot_is_told_before_and_at_the_first_start(narrow: PostgresServer) -> None:
    with source_database(narrow, "crowded") as source:
        source.execute("SELECT pg_create_physical_replication_slot('taken')")
        found = examined(source.login)["slot crowded"]
        with closing(connect_to_log(source.login)) as log, pytest.raises(UnfitServerError) as refused:
            create_slot(source.login, log, source.name)
        source.execute("SELECT pg_drop_replication_slot('taken')")

    assert (found.level, "max_replication_slots = 6" in found.hint) == ("error", True)
    assert "all replication slots are in use" in refused.value.message
    assert "raise max_replication_slots" in refused.value.hint


@pytest.mark.nightly
def test_a_slot_that_lost_log_is_refused_with_what_to_do(narrow: PostgresServer) -> None:
    with source_database(narrow, "lost") as source:
        source.publish()
        with source.copy() as copy:
            start = copy.position
        source.execute(
            *["SELECT pg_switch_wal()", "CREATE TABLE t (id int PRIMARY KEY)", "DROP TABLE t"] * 4, "CHECKPOINT"
        )
        with pytest.raises(LogPurgedError, match="has lost log") as refused:
            require_slot(source.login, source.name, start)
        with pytest.raises(LogPurgedError, match="does not have the WAL"):
            source.stream(start)
        found = examined(source.login)["slot lost"]

    assert "max_slot_wal_keep_size" in refused.value.hint
    assert found.level == "error"
    assert found.hint.startswith("type: penstock failover FILE SOURCE --to HOST:PORT --new-slot")


@pytest.mark.nightly
def test_a_server_whose_log_has_no_rows_is_refused(tmp_path: Path) -> None:
    with (
        start_postgres(tmp_path / "server", settings={"wal_level": "replica"}) as server,
        source_database(server, "rowless") as source,
    ):
        found = examined(source.login)["wal_level"]
        with pytest.raises(UnfitServerError, match="wal_level is replica") as refused:
            fit(source.login)
        with closing(connect_to_log(source.login)) as log, pytest.raises(UnfitServerError, match="not logical"):
            create_slot(source.login, log, source.name)
        source.execute("CREATE ROLE rds_superuser")
        at_amazon = examined(source.login)["wal_level"]

    assert found.level == "error"
    assert "ALTER SYSTEM SET wal_level = 'logical'" in refused.value.hint
    assert at_amazon.hint.startswith("set rds.logical_replication = 1")


@pytest.mark.nightly
def test_who_may_not_see_which_commits_wait_for_a_standby_is_told(tmp_path: Path) -> None:
    settings = {"synchronous_standby_names": "nobody", "synchronous_commit": "local"}
    with start_postgres(tmp_path / "server", settings=settings) as server, source_database(server, "shop") as source:
        source.execute(f"CREATE ROLE modest LOGIN REPLICATION PASSWORD '{PASSWORD}'")
        modest = replace(source.login, user="modest")
        found = examined(modest)["standbys"]
        source.execute(found.hint)

        assert (found.level, found.hint) == ("warning", "GRANT pg_read_all_stats TO modest")
        assert examined(modest)["standbys"].level == "ok"


def test_nothing_is_said_of_standbys_where_commits_wait_for_none(modest: Login) -> None:
    assert "standbys" not in examined(modest)
