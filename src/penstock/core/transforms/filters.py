"""Only rows for which a condition holds go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.transforms.conditions import Condition, names_in, parse_condition
from penstock.core.transforms.matching import find_matches

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.tables import TableSchema


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which `condition` holds, as `penstock.core.transforms.conditions` reads it, go on; others do not.

    Where it is unknown because of a NULL it does not hold, as in SQL's WHERE. Of
    changes, `penstock.core.transforms.filtered` makes those that are right.
    """

    condition: str
    _parsed: Condition = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Parse the condition; ValueError says where it cannot be read."""
        object.__setattr__(self, "_parsed", parse_condition(self.condition))

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        self.matches(
            schema, pa.table([pa.array([], arrow_type(column.type)) for column in schema.columns], _names(schema))
        )
        return schema

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        return self.derive(schema), rows.filter(pa.array(self.matches(schema, rows)))

    def reads(self, schema: TableSchema) -> frozenset[str]:
        """The columns of `schema` that the condition asks for."""
        names = {name.casefold() for name in names_in(self._parsed)}
        return frozenset(column.name for column in schema.columns if column.name.casefold() in names)

    def matches(self, schema: TableSchema, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each of n `rows` whether it goes on (bool[n])."""
        found = find_matches(self._parsed, schema, rows).fill_null(False)  # noqa: FBT003 - the value itself
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _names(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.columns]
