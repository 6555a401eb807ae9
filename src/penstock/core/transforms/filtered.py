"""The changes of those rows of a table that a filter wants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.changes import Op
from penstock.core.transforms.changed_rows import NOWHERE, unknown_value

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.transforms.changed_rows import ChangedRows
    from penstock.core.transforms.filters import Filter

    Flags = npt.NDArray[np.bool_]


def filter_changes(wanted: Filter, changes: ChangedRows) -> ChangedRows:
    """Return the changes of the table's wanted rows.

    | row before | row after | an update becomes |
    |---|---|---|
    | wanted | wanted | itself |
    | wanted | not | a delete of the row before |
    | not | wanted | a create of the row after |
    | not | not | nothing |
    | not known | wanted | a read of the row after, which takes the place of the row before if there is one |
    | not known | not | a delete of the row before, which does nothing if there is none |

    A create or a read goes on if its row is wanted, a delete if its row was or may have been.
    Raises TableStoppedError where nobody can tell whether a new row is wanted, and where
    one that is, and may be the first, lacks columns.
    """
    schema = wanted.derive(changes.schema)
    reads = wanted.reads(schema)
    unknown = _and_none(changes.images_without(reads))
    matches = _and_none(wanted.matches(schema, changes.images)) & ~unknown
    had, has, may_have = matches[changes.before_at], matches[changes.after_at], unknown[changes.before_at]
    is_update = changes.ops == Op.UPDATE
    enters = is_update & has & ~had
    _require_known(changes, unknown[changes.after_at], reads)
    _require_known(changes, enters, {column.name for column in schema.columns})
    leaves = is_update & ~has & (had | may_have)
    ops = np.where(enters, np.where(may_have, str(Op.READ), str(Op.CREATE)), changes.ops)
    kept = np.where(changes.ops == Op.DELETE, had | may_have, has | leaves)
    return replace(
        changes,
        schema=schema,
        ops=np.where(leaves, str(Op.DELETE), ops)[kept],
        before_at=np.where((had | may_have) & ~enters, changes.before_at, NOWHERE)[kept],
        after_at=np.where(has, changes.after_at, NOWHERE)[kept],
        origin=changes.origin[kept],
    )


def _and_none(flags: Flags) -> Flags:
    """Add one for the image that is not there, at -1."""
    return np.append(flags, False)


def _require_known(changes: ChangedRows, asked: Flags, columns: set[str] | frozenset[str]) -> None:
    """Refuse the first new row that lacks one of `columns`, of the changes that are `asked` for."""
    lacking = asked & _and_none(changes.images_without(columns))[changes.after_at]
    if lacking.any():
        image = changes.after_at[int(lacking.argmax())]
        column = min(changes.patterns[changes.lacks[image]] & columns)
        raise unknown_value(changes.schema, column, "a filter cannot do without it")
