"""The changes of those rows of a table that a filter wants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.changes import Op
from penstock.core.transforms.changed_rows import NOWHERE, all_but_key, unknown_value

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

    A create or a read goes on if its row is wanted, a delete if its row was or may have been. A
    read of a row that is not wanted becomes a delete of its key: what was there before may have been.
    Raises TableStoppedError where nobody can tell whether a new row is wanted, and where
    one that is, and may be the first, lacks columns.
    """
    schema, is_read = wanted.derive(changes.schema), changes.ops == Op.READ
    reads = wanted.reads(schema)
    unknown = _and_none(changes.images_without(reads))
    matches = _and_none(wanted.matches(schema, changes.images)) & ~unknown
    had, has, may_have = matches[changes.before_at], matches[changes.after_at], unknown[changes.before_at]
    _require_known(changes, unknown[changes.after_at], reads)
    if schema.key and (is_read & ~has).any():
        changes = _with_keys_alone(changes, is_read & ~has)
        may_have = may_have | (is_read & ~has)
    is_update = changes.ops == Op.UPDATE
    enters = is_update & has & ~had
    _require_known(changes, enters, {column.name for column in schema.columns})
    leaves = (is_update | is_read) & ~has & (had | may_have)
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


def _with_keys_alone(changes: ChangedRows, chosen: Flags) -> ChangedRows:
    """Make the rows after the changes that are `chosen` those before, and leave nothing but the key of them.

    They are not wanted, so nobody is to see them; and how the row was before, nobody knows.
    """
    schema, places = changes.schema, changes.after_at[chosen]
    hidden, lacks = np.zeros(changes.images.num_rows, dtype=np.bool_), changes.lacks.copy()
    hidden[places], lacks[places] = True, len(changes.patterns)
    columns = [
        values if name in schema.key else pc.if_else(pa.array(hidden), pa.scalar(None, values.type), values)
        for name, values in zip(changes.images.column_names, changes.images.columns, strict=True)
    ]
    return replace(
        changes,
        images=pa.Table.from_arrays(columns, schema=changes.images.schema),
        before_at=np.where(chosen, changes.after_at, changes.before_at),
        lacks=lacks,
        patterns=(*changes.patterns, all_but_key(schema)),
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
