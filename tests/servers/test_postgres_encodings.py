"""PostgreSQL databases whose encoding is not UTF-8, and texts that are no text in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
_ALL = "SELECT * FROM public.t ORDER BY id"


def _in_encoding(chain: PostgresChain, encoding: str) -> None:
    """Make the database anew, in an encoding that is not UTF-8."""
    database = f"CREATE DATABASE {chain.name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    replace(chain, name=chain.server.database).write(f"DROP DATABASE {chain.name}", database)
    chain.write(_TABLE, _TABLE.replace(" t ", " u "), _TABLE.replace(" t ", " w "))


def test_a_text_in_no_encoding_stops_its_table_and_no_other(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres()
    _in_encoding(chain, "SQL_ASCII")
    chain.write(r"INSERT INTO t VALUES (1, E'\303\274')", r"INSERT INTO u VALUES (1, E'\377')")
    chain.carry()
    copied = chain.stopped()

    chain.write(r"INSERT INTO w VALUES (1, E'\376')", "INSERT INTO t VALUES (2, 'b')")
    chain.carry()

    assert set(copied) == {"public.u"}
    assert "invalid byte sequence" in copied["public.u"]
    assert set(chain.stopped()) == {"public.u", "public.w"}
    assert "is no UTF-8" in chain.stopped()["public.w"]
    assert chain.rows(_ALL) == [(1, "\u00fc"), (2, "b")]


@pytest.mark.nightly
def test_a_byte_that_no_character_has_ends_the_capture_with_what_to_do(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres()
    _in_encoding(chain, "WIN1252")
    chain.write(r"INSERT INTO u VALUES (1, E'\201')", "INSERT INTO t VALUES (1, 'a')")
    chain.carry()
    copied = chain.stopped()
    chain.write(r"INSERT INTO w VALUES (1, E'\201')")

    with pytest.raises(UnfitServerError, match="cannot send its log as UTF-8") as refused:
        chain.carry()

    assert set(copied) == {"public.u"}
    assert chain.rows(_ALL) == [(1, "a")]
    assert "--new-slot" in refused.value.hint
