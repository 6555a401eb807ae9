"""Arrow imports no pandas where it was left out, and finds it where it was not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_LOOK = """
import sys
import pyarrow as pa
from penstock.spark.daemon import import_for_tasks
import_for_tasks()
pa.table({"a": [1]}).sort_by("a").to_pylist()
print("pandas" in sys.modules)
import pandas
print(pandas.Series([1]).sum())
"""


def _look(environment: dict[str, str]) -> list[str]:
    command = [sys.executable, "-c", _LOOK]
    found = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )
    return found.stdout.split()


def test_a_process_that_is_told_so_has_no_pandas_until_somebody_imports_it() -> None:
    assert _look({"PENSTOCK_WITHOUT_PANDAS": "1"}) == ["False", "1"]


@pytest.mark.nightly
def test_user_code_finds_pandas_imported() -> None:
    assert _look({}) == ["True", "1"]
