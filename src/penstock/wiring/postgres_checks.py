"""What a PostgreSQL source says of itself to `check`, `status` and a run that begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from penstock.adapters.postgres.source.connection import connected, explain
from penstock.adapters.postgres.source.identity import read_head
from penstock.adapters.postgres.source.preflight import examine_source, require_fit
from penstock.adapters.postgres.source.publication import Publication, require_whole_publication
from penstock.adapters.postgres.source.slot import read_slot, require_slot
from penstock.core.errors import NEW_SLOT, LogError, PenstockError, PositionError, UnfitServerError, UsageError
from penstock.core.findings import Finding
from penstock.core.positions import WalPosition, wal_position
from penstock.core.retention import Retention
from penstock.ports.source_status import SourceStatus
from penstock.wiring.postgres_server import log_access, source_publication, source_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.postgres.source.slot import SlotState
    from penstock.config.postgres_source import PostgresSourceSpec
    from penstock.core.positions import Position

_MEBIBYTE: Final = 1 << 20
_UNREAD: Final = (
    "run the pipeline, and see in `penstock status` what holds it up; if it is not needed any more, drop the slot: "
    "SELECT pg_drop_replication_slot('{slot}')"
)


def require_fit_postgres(source: PostgresSourceSpec) -> None:
    """Raise UnfitServerError, with everything that is wrong, unless the server can be captured."""
    with connected(source_server(source)) as connection:
        require_fit(connection, log_access(source))


def require_same_partitions(source: PostgresSourceSpec, position: WalPosition) -> None:
    """Raise UsageError if partitioned tables were read otherwise up to `position`: rows would be missing."""
    if source.partitions == position.partitions:
        return
    option = Publication(source.publication_name, source.partitions).option
    message = (
        f"the source {source.name} has `partitions: {source.partitions}`, and was read with "
        f"`partitions: {position.partitions}` up to {position}"
    )
    hint = (
        f"write `partitions: {position.partitions}` to go on as before; or type ALTER PUBLICATION "
        f"{source.publication_name} SET ({option}), then {NEW_SLOT}"
    )
    raise UsageError(message, hint)


def require_same_publication(source: PostgresSourceSpec, position: WalPosition) -> None:
    """Raise UsageError if `position` counts rows of a transaction as another publication has them."""
    if not position.rows_from or position.publication in {"", source.publication_name}:
        return
    message = (
        f"the source {source.name} has `publication: {source.publication_name}`, and a part of the transaction at "
        f"{position} was read with `publication: {position.publication}`: where to go on in it is known by that alone"
    )
    hint = (
        f"write `publication: {position.publication}` until that transaction is published, and change it then; if that "
        f"publication is gone for ever, {NEW_SLOT}"
    )
    raise UsageError(message, hint)


def examine_postgres(source: PostgresSourceSpec) -> Iterator[Finding]:
    """Look at settings, rights, slot, publication and tables."""
    subject, server = f"source {source.name}", source_server(source)
    try:
        with connected(server) as connection:
            yield Finding("ok", subject, f"{source.user} can log in to {source.host}:{source.port}")
            found = examine_source(connection, log_access(source), source.patterns.matches)
            for each in found:
                exit_code = UnfitServerError.exit_code if each.level == "error" else 0
                yield Finding(each.level, f"{subject}, {each.subject}", each.message, each.hint, exit_code)
    except psycopg.Error as error:
        explained = explain(server, error)
        yield Finding("error", subject, explained.message, explained.hint, explained.exit_code)
    except PenstockError as error:
        yield Finding("error", subject, error.message, error.hint, error.exit_code)


def read_postgres_status(source: PostgresSourceSpec, position: Position | None) -> SourceStatus:
    """See capture_kind.CaptureKind.standing."""
    server = source_server(source)
    with connected(server) as connection:
        head = WalPosition(read_head(connection))
        slot = read_slot(connection, source.slot_name)
    if position is None:
        return SourceStatus(source.name, None, head, retention=None if slot is None else _judge(source, slot))
    place = wal_position(position)
    # A slot that is read moves on while we look: whoever reads it has held it against its own position.
    least = place if slot is None or not slot.is_active else WalPosition(max(place.lsn, slot.confirmed))
    try:
        require_slot(server, source.slot_name, least)
        with connected(server) as connection:
            # What it leaves out now is nowhere in the log.
            require_whole_publication(connection, source_publication(source))
    except (LogError, PositionError, UnfitServerError) as error:
        retention = None if slot is None else _retention(source, slot, "error", error.message, error.hint)
        return SourceStatus(source.name, place, head, retention=retention, unanswered=error.message, hint=error.hint)
    behind = max(0, head.lsn - place.lsn)
    retention = None if slot is None else _judge(source, slot)
    return SourceStatus(source.name, place, head, behind, retention=retention)


def _judge(source: PostgresSourceSpec, slot: SlotState) -> Retention:
    """Judge how much log the server keeps for our slot, and whether it goes on to."""
    kept = f"the server keeps {slot.retained_bytes // _MEBIBYTE:,} MiB of log for the slot {source.slot_name}"
    hint = _UNREAD.format(slot=source.slot_name)
    if slot.wal_status == "unreserved":
        return _retention(source, slot, "error", f"{kept}, and may remove it at any moment", hint)
    if slot.retained_bytes >= source.wal_warning_mebibytes * _MEBIBYTE:
        return _retention(source, slot, "warning", kept, hint)
    if slot.safe_bytes is not None and slot.safe_bytes < slot.retained_bytes:
        return _retention(source, slot, "warning", f"{kept}, over half of max_slot_wal_keep_size", hint)
    return _retention(source, slot, "ok", kept, "")


def _retention(source: PostgresSourceSpec, slot: SlotState, level: str, text: str, hint: str) -> Retention:
    return Retention(
        level=level,  # type: ignore[arg-type]
        text=text,
        hint=hint,
        oldest_file="",
        needed_file=source.slot_name,
        newest_file="",
        files=0,
        size_bytes=slot.retained_bytes,
        files_before=0,
        expire_seconds=None,
        seconds_left=None,
    )
