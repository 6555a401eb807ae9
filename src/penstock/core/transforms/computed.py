"""Columns that are computed from others, of row images that may lack these.

Where an image has all that a column is computed from, it has the column. Where
an update touched nothing of that, the column is as it was, and the new image
lacks it as it lacks the others; an image from before a change lacks it too. Of
anything else nobody knows the value, and nothing is made up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.changes import Op
from penstock.core.transforms.changed_rows import NOWHERE, unknown_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.changed_rows import ChangedRows


def with_computed(
    changes: ChangedRows, reads: frozenset[str], compute: Callable[[pa.Table], tuple[TableSchema, pa.Table]]
) -> ChangedRows:
    """Return `changes` with the columns that `compute` adds to images, which it makes of the columns `reads`.

    Raises TableStoppedError where a new row lacks some of these, and what `compute` raises.
    """
    _require_known(changes, reads)
    lacking = changes.images_without(reads)
    known = changes.images.filter(pa.array(~lacking))
    schema, rows = compute(known)
    if rows.num_rows != known.num_rows:
        message = f"a transform made {rows.num_rows} rows of {known.num_rows}"
        raise ValueError(message)
    if not lacking.any():
        return replace(changes, schema=schema, images=rows)
    places = pa.array(np.cumsum(~lacking) - 1, pa.int64(), mask=lacking)
    added = rows.select(range(changes.images.num_columns, rows.num_columns)).take(places)
    names = frozenset(added.column_names)
    return replace(
        changes,
        schema=schema,
        images=pa.Table.from_arrays([*changes.images.columns, *added.columns], schema=rows.schema),
        patterns=tuple(pattern if pattern.isdisjoint(reads) else pattern | names for pattern in changes.patterns),
    )


def _require_known(changes: ChangedRows, reads: frozenset[str]) -> None:
    """A new row may lack all that is read, if it is that of an update, or nothing of it."""
    is_partly = np.array([not pattern.isdisjoint(reads) for pattern in changes.patterns], dtype=np.bool_)
    is_wholly = np.array([pattern.issuperset(reads) for pattern in changes.patterns], dtype=np.bool_)
    there = changes.after_at != NOWHERE
    after = changes.lacks[changes.after_at[there]]
    unknown = is_partly[after] & ~(is_wholly[after] & (changes.ops[there] == Op.UPDATE))
    if unknown.any():
        column = min(changes.patterns[after[unknown.argmax()]] & reads)
        raise unknown_value(changes.schema, column, "another column is computed from it")
