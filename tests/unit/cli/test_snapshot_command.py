"""What `penstock snapshot` refuses before it looks at the file."""

from __future__ import annotations

import pytest
from tests.unit.config.test_load import SMALL, read

from penstock.cli.snapshot import Action, Locks, Rows, _require_one_meaning
from penstock.cli.snapshot_request import request_snapshots
from penstock.core.errors import UsageError
from penstock.core.snapshots import Method, SnapshotOptions


@pytest.mark.parametrize("rows", [Rows(rows_per_second=100), Rows(where="id > 3")])
def test_options_beside_an_action_are_refused_for_they_would_change_nothing(rows: Rows) -> None:
    with pytest.raises(UsageError, match="--resume takes no options") as error:
        _require_one_meaning(["shop.orders"], rows, Locks(), Action(resume=True))

    assert "--cancel, then ask for it again" in error.value.hint


def test_an_action_alone_and_options_alone_pass() -> None:
    _require_one_meaning(["shop.orders"], Rows(), Locks(), Action(pause=True))
    _require_one_meaning(["shop.orders"], Rows(where="id > 3"), Locks(blackhole=True), Action())
    _require_one_meaning(None, Rows(), Locks(), Action(status=True))


@pytest.mark.parametrize(
    "options",
    [
        SnapshotOptions(link="db-to-wh"),
        SnapshotOptions(link="db-to-wh", full_refresh=True, method=Method.FULL_LOCK),
    ],
)
def test_a_link_is_named_for_a_full_refresh_that_locks_nothing_and_for_nothing_else(options: SnapshotOptions) -> None:
    with pytest.raises(UsageError, match="--link says whose target --full-refresh empties"):
        request_snapshots(read(SMALL), ["shop.orders"], options, None)
