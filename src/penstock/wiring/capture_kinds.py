"""The kinds of source: the one place that picks what answers for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.config.mysql_source import MysqlSourceSpec
from penstock.config.postgres_source import PostgresSourceSpec

if TYPE_CHECKING:
    from penstock.config.specs import SourceSpec
    from penstock.wiring.capture_kind import CaptureKind


def capture_kind(source: SourceSpec) -> CaptureKind:
    """The kind that `source` is of: an entry for each. Drivers are imported for sources that need them alone."""
    match source:
        case MysqlSourceSpec():
            from penstock.wiring.mysql_capture import MysqlCapture  # noqa: PLC0415 - as above

            return MysqlCapture()
        case PostgresSourceSpec():
            from penstock.wiring.postgres_capture import PostgresCapture  # noqa: PLC0415 - as above

            return PostgresCapture()
        case _:
            assert_never(source)
