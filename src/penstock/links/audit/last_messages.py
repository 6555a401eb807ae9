"""Finds the newest message of rows in what a stage has folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.audit.findings import LastMessage
from penstock.core.audit.queries import index_by_key, keys_query
from penstock.core.audit.stage_columns import PARTITION, PLACE, TOPIC
from penstock.core.files import OFFSET, OP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.audit.queries import RowKey
    from penstock.core.audit.side import AuditSide
    from penstock.ports.folded_rows import FoldedRows

_KEYS_AT_ONCE: Final = 200
_SHOWN: Final = (TOPIC, PARTITION, OFFSET, PLACE, OP)


def read_last_messages(folded: FoldedRows, side: AuditSide, keys: Sequence[RowKey]) -> dict[RowKey, LastMessage]:
    """Return the newest message, deletes too, of those of `keys` that have one; `side` is any of the folded rows."""
    found: dict[RowKey, LastMessage] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        rows = folded.fetch(keys_query(side, keys[start : start + _KEYS_AT_ONCE], more=_SHOWN))
        for key, (row, *_) in index_by_key(rows, len(side.key)).items():
            topic, partition, offset, place, op = row[-len(_SHOWN) :]
            found[key] = LastMessage(str(topic), int(partition), int(offset), str(place), str(op))
    return found
