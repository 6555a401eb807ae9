"""Processes of a pipeline without code of its user's have no pandas: half a second and 40 MB each.

Arrow imports pandas before it makes its first array, to know pandas' objects when it
meets them, and nobody but user code has any.

Source: pyarrow/pandas-shim.pxi, `_PandasAPIShim._check_import`.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec

_TOLD = "PENSTOCK_WITHOUT_PANDAS"
"""Tells processes that Spark starts on this machine; those of a cluster's executors have pandas."""


def leave_out_pandas(spec: PipelineSpec) -> None:
    """Let Arrow find no pandas in this process, nor in those that it starts, unless `spec` has code of the user's."""
    if not spec.spolts:
        os.environ[_TOLD] = "1"
        _let_arrow_find_none()


def is_left_out() -> bool:
    """Whether this process was started by one that has left it out; Arrow finds none here then, either."""
    if _TOLD not in os.environ:
        return False
    _let_arrow_find_none()
    return True


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002 - Python's names
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def _let_arrow_find_none() -> None:
    if "pandas" in sys.modules:
        return
    import pyarrow as pa  # noqa: PLC0415 - what spends no time on it need not wait for it

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        # It looks once, at its first array.
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
