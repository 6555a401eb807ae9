"""Where a PostgreSQL server left each timeline that it was in."""

from __future__ import annotations

from itertools import chain

from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.positions import WalPosition, position_from_mapping
from penstock.core.postgres.log_items import LogAdvanced, ShortTransactions, TransactionEnded
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.server_timelines import end_of_timeline

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


def test_places_of_a_stream_are_of_its_servers_timeline_and_stay_so_when_they_are_written() -> None:
    scanner = PgoutputScanner(WalPosition(0, server_timeline=4))
    one, another = ([encoding.encode_begin(lsn), encoding.encode_commit(lsn, lsn + 10)] for lsn in (100, 200))
    single = chain.from_iterable(map(scanner.take, one))
    items = [scanner.at_rest(50), *single, *scanner.take_all(another)]

    ends = [item.end for item in items if isinstance(item, LogAdvanced | TransactionEnded | ShortTransactions)]
    written = [position_from_mapping(end.to_mapping()) for end in ends]

    assert [each.server_timeline for each in written if isinstance(each, WalPosition)] == [4, 4, 4]
