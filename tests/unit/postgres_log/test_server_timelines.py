"""Where a PostgreSQL server left each timeline that it was in."""

from __future__ import annotations

from itertools import chain

import pytest
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.positions import WalPosition, position_from_mapping
from penstock.core.postgres.log_items import LogAdvanced, ShortTransactions, TransactionEnded
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.server_timelines import end_of_timeline, has_log_before, is_another_timeline

HISTORY = """\
1\t0/3000060\tno recovery target specified

# what somebody noted
2\t16/B374D848\tbefore 2026-01-01 10:00:00+00
"""


def test_a_timeline_ends_where_the_next_one_begins() -> None:
    assert end_of_timeline(HISTORY, 1) == 0x3000060
    assert end_of_timeline(HISTORY, 2) == 0x16B374D848


def test_a_timeline_that_the_server_never_was_in_has_no_end_in_it() -> None:
    assert end_of_timeline(HISTORY, 3) is None
    assert end_of_timeline("", 1) is None


@pytest.mark.parametrize(
    ("position", "is_another", "has_log"),
    [
        # Of two standbys of timeline 2, one was promoted at the end of it here, and one elsewhere.
        (WalPosition(0x16B374D850, server_timeline=3, timeline_from=0x16B374D848), False, False),
        (WalPosition(0x16B374D850, server_timeline=3, timeline_from=0x16B374D800), True, False),
        (WalPosition(0x3000100, server_timeline=2, timeline_from=0x3000060), False, True),
        (WalPosition(0x3000100, server_timeline=2, timeline_from=0x3000050), True, True),
        # What nobody knows, as in records of earlier releases, and the first timeline.
        (WalPosition(0x16B374D850, server_timeline=3), False, False),
        (WalPosition(0x3000100), False, True),
        (WalPosition(0x3000000, server_timeline=1), False, True),
        (WalPosition(0x3000060, rows_from=4, server_timeline=1), False, False),
    ],
)
def test_timelines_of_one_number_are_told_apart_by_where_they_began(
    position: WalPosition,
    is_another: bool,  # noqa: FBT001 - a parameter
    has_log: bool,  # noqa: FBT001 - a parameter
) -> None:
    written = position_from_mapping(position.to_mapping())

    assert isinstance(written, WalPosition)
    assert is_another_timeline(HISTORY, written) is is_another
    assert has_log_before(HISTORY, written) is has_log
    assert not is_another_timeline("", written)


def test_places_of_a_stream_are_of_its_servers_timeline_and_stay_so_when_they_are_written() -> None:
    scanner = PgoutputScanner(WalPosition(0, server_timeline=4, timeline_from=7))
    one, another = ([encoding.encode_begin(lsn), encoding.encode_commit(lsn, lsn + 10)] for lsn in (100, 200))
    single = chain.from_iterable(map(scanner.take, one))
    items = [scanner.at_rest(50), *single, *scanner.take_all(another)]

    ends = [item.end for item in items if isinstance(item, LogAdvanced | TransactionEnded | ShortTransactions)]
    written = [position_from_mapping(end.to_mapping()) for end in ends]

    places = [(each.server_timeline, each.timeline_from) for each in written if isinstance(each, WalPosition)]
    assert places == [(4, 7)] * 3
