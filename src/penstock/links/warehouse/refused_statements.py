"""What a target refuses is the trouble of one table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.core.errors import RefusedStatementError, TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def stops(table: str) -> Iterator[None]:
    """Raise TableStoppedError of the table where the target refuses a statement."""
    try:
        yield
    except RefusedStatementError as error:
        raise TableStoppedError(table, "", "the target's table", error.message, error.hint) from error
