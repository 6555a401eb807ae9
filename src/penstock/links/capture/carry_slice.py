"""Slices of a backlog: each waits for the publish token, then publishes what was read, up to the first statement.

Tasks read side by side and publish one after the other. The token is in the
position record (core/publish_tokens.py): a slice opens the capture, which fences the one
ahead of it, only when that one has committed its end. What was read behind a
statement is thrown away and read again: its tables may have changed. So is what
was read behind a file in which a table stopped, or at whose end XA transactions
are prepared: its readers did not know of that.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, assert_never

from penstock.core.errors import FencedError, PenstockError, UnavailableError
from penstock.core.publication import Publication
from penstock.core.publish_tokens import Outlook, TokenState, outlook
from penstock.links.capture.backlog import SliceEnded, SliceFailed, TablesStopped
from penstock.links.capture.backlog_slices import SliceDropped, SlicePublished

if TYPE_CHECKING:
    from penstock.core.positions import Position
    from penstock.core.publication import CaptureRecord
    from penstock.core.publish_tokens import PublishToken
    from penstock.links.capture.backlog import ReadAhead
    from penstock.links.capture.backlog_slices import BacklogSlice
    from penstock.links.capture.open_capture import OpenCapture

_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 60.0
"""For the record to change: by then a broker is back, and a task that has died has ended its micro-batch."""


class PublishTokens(Protocol):
    """The capture of which the slices are, as a task reaches it."""

    def newest(self) -> CaptureRecord | None:
        """The newest committed record, and nobody is fenced."""
        ...

    def open(self, publish_token: PublishToken) -> OpenCapture:
        """Take the capture over."""
        ...

    def on_top_of(self, base: Position, position: Position) -> Position:
        """Return `position`, read from `base` on by somebody who knew nothing but that place."""
        ...

    def end(self, publish_token: PublishToken) -> None:
        """Take the capture over and commit the token, with nothing else; nobody is fenced who goes on behind it."""
        ...


def carry_slice(
    slice_: BacklogSlice, ahead: ReadAhead, publish_tokens: PublishTokens, epoch: int
) -> SlicePublished | SliceDropped:
    """Read ahead until the slice has the publish token, then publish it.

    Raises what reading and publishing raise; then no slice behind it gets the token.
    """
    parent = os.getppid()
    dropped = _await_token(slice_, ahead, publish_tokens, epoch)
    if dropped is not None:
        return dropped
    _require_parent(parent)
    capture: OpenCapture | None = None
    try:
        capture = publish_tokens.open(slice_.publish_token(TokenState.OPEN))
        with closing(capture.parts):
            return _publish(capture, slice_, ahead, publish_tokens, parent)
    except (FencedError, _OrphanedError):
        raise
    except PenstockError:
        # Once we have tried to pass the token on, somebody may have it, whatever we heard: they must not be fenced.
        if capture is None or capture.publish_token != slice_.publish_token(TokenState.PASSED):
            publish_tokens.end(slice_.publish_token(TokenState.OVER))
        raise


def _await_token(
    slice_: BacklogSlice, ahead: ReadAhead, publish_tokens: PublishTokens, epoch: int
) -> SliceDropped | None:
    """Return when the slice has the token, or why it never gets it."""
    parent, seen, since = os.getppid(), None, time.monotonic()
    while True:
        newest = publish_tokens.newest()
        if newest is not None and newest.epoch > epoch:
            return SliceDropped(slice_.begin)
        match outlook(None if newest is None else newest.publish_token, slice_.plan, slice_.number):
            case Outlook.NOW:
                return None
            case Outlook.NEVER:
                return SliceDropped(slice_.begin)
            case Outlook.LATER:
                pass
            case other:
                assert_never(other)
        if newest != seen:
            seen, since = newest, time.monotonic()
        waited = time.monotonic() - since
        if waited > _PATIENCE_SECONDS:
            return SliceDropped(slice_.begin, waited)
        _require_parent(parent)
        if not ahead.read_on():
            time.sleep(_LOOK_SECONDS)


def _publish(
    capture: OpenCapture, slice_: BacklogSlice, ahead: ReadAhead, publish_tokens: PublishTokens, parent: int
) -> SlicePublished | SliceDropped:
    base, before = capture.position, set(capture.stopped)
    if base.order != slice_.begin.order or capture.stops_more:
        # Somebody has published since the plan was made; or tables stopped that were read.
        _end(capture, slice_, base, goes_on=False)
        return SliceDropped(slice_.begin)
    publications = rows = 0
    for part in ahead.take():
        _require_parent(parent)
        match part:
            case TablesStopped(stopped):
                capture.stopped.update(stopped)
            case Publication(end=end):
                capture.publish(replace(part, end=publish_tokens.on_top_of(base, end)))
                publications += 1
                rows += sum(count for count, _ in part.rows.values())
            case SliceEnded(position):
                goes_on = not (slice_.is_last or position.is_open or set(capture.stopped) != before)
                _end(capture, slice_, publish_tokens.on_top_of(base, position), goes_on=goes_on)
                return SlicePublished(capture.position, publications, rows, goes_on)
            case SliceFailed(error):
                raise error
            case statement:
                capture.publish_token = slice_.publish_token(TokenState.OVER)
                capture.take_statement(statement.ending_at(publish_tokens.on_top_of(base, statement.end)))
                capture.parts.publisher.settle()
                return SlicePublished(capture.position, publications, rows, goes_on=False)
    message = f"the file from {slice_.begin} was not read to its end"
    raise UnavailableError(message, "the link starts again by itself")


def _end(capture: OpenCapture, slice_: BacklogSlice, position: Position, *, goes_on: bool) -> None:
    """Commit where the slice ends, and who has the token now.

    Behind the record that passes the token on, the next slice may fence us at any
    moment: nothing may be left to do.
    """
    if goes_on:
        capture.parts.publisher.settle()
        capture.publish_token = slice_.publish_token(TokenState.PASSED)
        capture.advance(position)
        capture.parts.publisher.save()
    else:
        capture.publish_token = slice_.publish_token(TokenState.OVER)
        capture.advance(position)
        capture.parts.publisher.settle()


class _OrphanedError(UnavailableError):
    """The process that started us is gone, and others may have been started in our place."""


def _require_parent(parent: int) -> None:
    if os.getppid() != parent:
        message = "the process that started this task is gone"
        raise _OrphanedError(message, "the link starts again by itself")
