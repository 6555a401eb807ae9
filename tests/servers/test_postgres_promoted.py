"""A PostgreSQL server that was promoted: it goes on with the log that was read, or with another one in its place."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.connection import connect
from penstock.adapters.postgres.source.identity import read_head
from penstock.adapters.postgres.source.stream import open_stream
from penstock.core.errors import PositionError
from penstock.core.positions import WalPosition
from penstock.dev.postgres import start_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer as RunningServer

SLOT = "promoted"


@pytest.fixture
def promoted(tmp_path: Path) -> Iterator[tuple[RunningServer, int]]:
    """A server that was a standby with our slot until now, and where its log was before that."""
    first = start_postgres(tmp_path / "server")
    with closing(connect(login(first))) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (SLOT,))
        connection.execute("CREATE PUBLICATION promoted FOR ALL TABLES")
        connection.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
        read_to = read_head(connection)
    first.stop()
    signal, owned = tmp_path / "server/data/standby.signal", tmp_path / "server/data/PG_VERSION"
    signal.touch()
    shutil.chown(signal, owned.stat().st_uid, owned.stat().st_gid)
    second = start_postgres(tmp_path / "server")
    with closing(connect(login(second))) as connection:
        connection.execute("SELECT pg_promote()")
    yield second, read_to
    second.stop()


def login(server: RunningServer) -> PostgresServer:
    """Our login to a server."""
    return PostgresServer(server.host, server.port, server.database, server.user, server.password, {})


def test_a_promoted_server_goes_on_with_what_it_has_and_is_refused_behind_it(
    promoted: tuple[RunningServer, int],
) -> None:
    server, read_to = login(promoted[0]), promoted[1]
    ours = WalPosition(read_to, server_timeline=1)
    with closing(connect(server)) as connection:
        connection.execute("INSERT INTO public.t SELECT generate_series(1, 1000)")
        head = read_head(connection)

    with closing(open_stream(server, SLOT, ["promoted"], ours)) as stream:
        ours_now = stream._scanner._end
        assert ours_now.server_timeline == 2
        assert 0 < ours_now.timeline_from <= head
    with closing(open_stream(server, SLOT, ["promoted"], ours_now)):
        pass
    with pytest.raises(PositionError, match=r"Its timeline 2 began at .*, ours at "):
        open_stream(server, SLOT, ["promoted"], replace(ours_now, timeline_from=ours_now.timeline_from - 8))
    with pytest.raises(PositionError, match="timeline 2 and does not have the log of timeline 1 up to"):
        open_stream(server, SLOT, ["promoted"], replace(ours, lsn=head))
