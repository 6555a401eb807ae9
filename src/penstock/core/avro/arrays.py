"""Names for the arrays that this package passes around."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
Flags: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]
Unsigned: TypeAlias = npt.NDArray[np.uint64]
