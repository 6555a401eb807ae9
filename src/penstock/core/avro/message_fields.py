"""What a message is made of, in the order of its bytes: the common ground of both ways of encoding.

Messages of one batch differ in few places. Each place is one of four kinds;
whatever is the same in all of them is constant bytes, encoded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.avro.arrays import ArrowArray, Integers
    from penstock.core.tables import Column


@dataclass(frozen=True, slots=True)
class Constant:
    """The same bytes in every message."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Numbers:
    """An Avro int or long: int64[n]."""

    values: Integers


@dataclass(frozen=True, slots=True)
class OptionalText:
    """A union of null and string: string[n], of which "" and null are written as null."""

    texts: pa.StringArray


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """One column of the rows, in the Arrow type that carries it."""

    values: ArrowArray
    column: Column


MessageField: TypeAlias = Constant | Numbers | OptionalText | ColumnValues
