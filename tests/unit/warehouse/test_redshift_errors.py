"""Which of Redshift's errors are about what a statement does, and which of them pass."""

from __future__ import annotations

import pytest
from redshift_connector.error import ProgrammingError

from penstock.adapters.redshift.connection import RedshiftCluster, explain
from penstock.core.errors import RefusedStatementError, SinkError


@pytest.mark.parametrize(
    ("code", "detail", "is_refused"),
    [
        ("XX000", "error:  Invalid digit, Value 'x', Pos 0, Type: Integer\n  code:      1207", True),
        ("XX000", "error:  Assert\n  code:      1000", False),
        ("40P01", "deadlock detected", False),
        ("25001", "VACUUM cannot run inside a transaction block", True),
        ("42P07", 'Relation "copied" already exists', True),
    ],
)
def test_only_what_a_statement_does_is_held_against_its_tables(code: str, detail: str, *, is_refused: bool) -> None:
    cluster = RedshiftCluster("h", 5439, "d", "u", "p")

    error = explain(cluster, ProgrammingError({"C": code, "M": "", "D": detail}))

    assert isinstance(error, SinkError)
    assert isinstance(error, RefusedStatementError) == is_refused
