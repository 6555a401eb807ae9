"""Blocks of ROWS events are what the events are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.rows import decode
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.rows.rows_block import RowsBlock, join_rows
from penstock.core.tables import TextType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import OneColumn

    from penstock.core.mysql.types.logged_rows import RowsLogged


@pytest.mark.parametrize("decoder", ["plain", "columns"])
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_a_block_is_decoded_as_its_events(
    one_column: OneColumn, decoder: str, parts: Sequence[tuple[int, bool]]
) -> None:
    """Each part is some rows of an event, and whether it joins the block of the event before."""
    writer = one_column(TextType(200, "utf8mb4"), nullable=True)
    events = [writer.event([[f"{at}-{row}"] for row in range(n)], offset=at) for at, (n, _) in enumerate(parts, 100)]
    mixed: list[RowsLogged | RowsBlock] = []
    for event, (_, joins) in zip(events, parts, strict=True):
        mixed.append(join_rows([mixed.pop(), event]) if joins and mixed else event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_PLAIN_BYTES_MAX", -1 if decoder == "columns" else 1 << 40)
        batch, expected = decode_rows(writer.schema, mixed), decode_rows(writer.schema, events)

    assert [event for block in mixed if isinstance(block, RowsBlock) for event in block] == [
        event for event, is_in_block in zip(events, _in_blocks(parts), strict=True) if is_in_block
    ]
    assert batch.after == expected.after
    assert batch.gtids == expected.gtids
    for name in ("offsets", "rows", "timestamps_ms"):
        assert getattr(batch, name).tolist() == getattr(expected, name).tolist()


def _in_blocks(parts: Sequence[tuple[int, bool]]) -> list[bool]:
    joins = [joins and bool(index) for index, (_, joins) in enumerate(parts)]
    return [own or following for own, following in zip(joins, [*joins[1:], False], strict=True)]
