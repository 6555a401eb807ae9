"""Bringing a state database to this release's tables, also when several processes start at once.

Almost every start finds them there already. Alembic, which takes a third of a second
of CPU to import and to look at its revisions, is asked only where they are not.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from penstock.adapters.state.database import open_engine, transaction
from penstock.core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

VERSION_TABLE = "penstock_state_version"

NEWEST = "running_time_of_snapshots"
"""The last of the revisions in `migrations/versions`."""

_LOCK_NAME = "penstock_state_migration"
_LOCK_NUMBER = 0x70656E73  # "pens"; PostgreSQL names its advisory locks by number.
_LOCK_SECONDS = 30


def open_current(url: str) -> Engine:
    """Open the state database at `url`, which has this release's tables; an empty one gets them.

    Raises as `open_engine` and `migrate` do, and UsageError where an older release wrote it: that
    one may be running, and would refuse newer tables when it opens them next.
    """
    engine = open_engine(url)
    try:
        _make_or_require(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def migrate(url: str) -> None:
    """Apply the migrations that the database lacks, in the order of their revisions: for who leads the pipeline alone.

    Raises as `open_engine` does, UsageError when the database was written by a newer release, and
    UnavailableError when it is away or another process migrates it for longer than half a minute.
    """
    engine = open_engine(url)
    try:
        with transaction(engine) as connection:
            is_current = _is_current(connection)
        if not is_current:
            _upgrade(engine)
    finally:
        engine.dispose()


def _make_or_require(engine: Engine) -> None:
    with transaction(engine) as connection:
        if _is_current(connection):
            return
        is_older = bool(_applied(connection))
    if not is_older:
        _upgrade(engine)
        return
    where = engine.url.render_as_string(hide_password=True)
    message = f"the state database {where} was written by an older release, which this command leaves as it is"
    hint = "start this release's `penstock run`, which brings it up to date; while the older one runs, use its commands"
    raise UsageError(message, hint)


def _upgrade(engine: Engine) -> None:
    from penstock.adapters.state.revisions import upgrade  # noqa: PLC0415 - see the module's docstring

    with _alone(engine), transaction(engine, begin="BEGIN IMMEDIATE") as connection:
        if not _is_current(connection):
            upgrade(connection)


def has_current_tables(url: str) -> bool:
    """Whether `migrate` would find nothing to do in the database at `url`, which is not changed.

    Raises what `migrate` raises.
    """
    engine = open_engine(url)
    try:
        with transaction(engine) as connection:
            return _is_current(connection)
    finally:
        engine.dispose()


def _is_current(connection: Connection) -> bool:
    applied = _applied(connection)
    if applied == {NEWEST}:
        return True
    from penstock.adapters.state.revisions import known_revisions  # noqa: PLC0415 - see the module's docstring

    unknown = applied - known_revisions()
    if unknown:
        where = connection.engine.url.render_as_string(hide_password=True)
        message = f"the state database {where} was written by a newer release (revision {', '.join(sorted(unknown))})"
        raise UsageError(message, "upgrade Penstock here too, or give this pipeline another state database")
    return False


def _applied(connection: Connection) -> set[str]:
    """Read the revision that Alembic wrote; nothing where it has not been."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return set()
    return set(connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars())  # noqa: S608 - a constant


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Keep other migrations out until ours is committed: hence on a connection of its own.

    SQLite needs nothing here: BEGIN IMMEDIATE lets one writer in.
    """
    if engine.dialect.name == "sqlite":
        yield
        return
    with transaction(engine) as connection:
        _wait_for_turn(connection)
        try:
            yield
        finally:
            if engine.dialect.name != "postgresql":
                connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": _LOCK_NAME})


def _wait_for_turn(connection: Connection) -> None:
    """Take the server's advisory lock. PostgreSQL lets go of it when the transaction ends, MySQL does not."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
        return
    lock = {"name": _LOCK_NAME, "seconds": _LOCK_SECONDS}
    if connection.execute(text("SELECT GET_LOCK(:name, :seconds)"), lock).scalar() != 1:
        message = f"another process has been migrating the state database for {_LOCK_SECONDS} s"
        raise UnavailableError(message, "wait for it to end, then start again")
