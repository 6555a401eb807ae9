"""Every error Penstock raises on purpose, and what the operator should do about it.

PenstockError                 anything we can explain
├── UsageError                exit 2: a config or a command line that cannot work
│   ├── ConfigError           all the mistakes of one file, each with its line
│   ├── UnknownStreamError    a join reads a table that no capture has announced, or not yet
│   └── UnfitServerError      a server's settings or grants do not allow the work
├── UnavailableError          retryable: a server cannot be reached just now
│   └── ConflictError         another writer changed a table at the same time
├── FencedError               another instance of this pipeline has taken over
│   └── DisplacedError        somebody took over, and it may have been an older task of this very instance
├── LockLostError             we no longer hold the leader's lock, so another instance may
├── TableStoppedError         one table cannot go on; the others do
├── LogError                  the log itself cannot be read on
│   ├── CorruptLogError       bytes that do not decode, or a checksum that differs
│   └── LogPurgedError        the log no longer reaches back to our position
├── SpoltError                user code of a spolt failed on a message
├── PositionError             what the target holds and what the log says disagree
└── SinkError                 a target refused what it was given
    └── RefusedStatementError  a statement, for what its tables are
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

START_ANEW = "start a new pipeline with an initial snapshot (another `pipeline` name and `home`, `start: snapshot`)"
"""What to do where everything must be read anew."""

READ_AGAIN = f"have the table's rows read again (penstock snapshot FILE TABLE), or {START_ANEW}"
"""What to do where the rows of one table must be read anew. Only MySQL's tables with a primary key can be so far."""

STOP_ONE = "stop one of two instances, if there are two"
"""What to do where another instance of the same pipeline seems to be at work; what became of ours follows."""


class PenstockError(Exception):
    """Something went wrong that we can explain.

    Errors travel from executor to driver by pickle, so every argument of a
    subclass goes to `super().__init__` and is kept in `args`, in the order of
    the subclass's own parameters.
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str) -> None:
        """Keep what happened (`message`) and what to do about it (`hint`)."""
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Both sentences, as an operator reads them."""
        return f"{self.message}\n  what to do: {self.hint}"


class UsageError(PenstockError):
    """The command or the config cannot work as it is written."""

    exit_code = 2


class ConfigError(UsageError):
    """One config file and every mistake in it."""

    def __init__(self, file: str, mistakes: Sequence[str]) -> None:
        """List `mistakes`, each already with its line number."""
        listed = "\n".join(f"  {mistake}" for mistake in mistakes)
        super().__init__(f"{file} has {len(mistakes)} mistake(s):\n{listed}", "correct the lines above and try again")
        self.args = (file, tuple(mistakes))
        self.file = file
        self.mistakes = tuple(mistakes)


class UnknownStreamError(UsageError):
    """A join's file names a table that no capture of the pipeline has announced, or not yet."""


class UnfitServerError(UsageError):
    """A server answers, but its settings or our grants do not allow the work."""


class UnavailableError(PenstockError):
    """A server cannot be reached now; trying again may help."""

    retryable = True


class ConflictError(UnavailableError):
    """Another writer changed a target's table while we did."""


class FencedError(PenstockError):
    """Another instance of this pipeline took over; this one must not publish."""


class DisplacedError(FencedError):
    """Somebody took the link over while we had it: another instance, or a task of ours that was thought to be gone.

    Whoever opens the link anew is told by its record which of the two it was.
    """

    retryable = True


class LockLostError(PenstockError):
    """The leader's lock was taken from us while we ran; another instance may lead now."""


class TableStoppedError(PenstockError):
    """One table cannot go on. The other tables do."""

    def __init__(self, table: str, column: str, position: str, reason: str, hint: str) -> None:
        """Name the table, the column (or "" for the whole table), the place in the log and the cause."""
        where = f"{table}.{column}" if column else table
        super().__init__(f"table {where} stopped at {position}: {reason}", hint)
        self.args = (table, column, position, reason, hint)
        self.table = table
        self.column = column
        self.position = position
        self.reason = reason


class TableWaitsError(TableStoppedError):
    """One table cannot go on just now, because somebody holds it; trying again may help."""

    retryable = True


class LogError(PenstockError):
    """The log cannot be read on."""


class CorruptLogError(LogError):
    """Bytes of the log do not decode, or their checksum differs."""


class LogPurgedError(LogError):
    """The log no longer reaches back to our position."""


class SpoltError(PenstockError):
    """User code of a spolt failed on a message, or on what it made of one; nothing was published."""


class PositionError(PenstockError):
    """What a target holds and what the log says cannot both be true."""


class SinkError(PenstockError):
    """A target refused what it was given."""


class RefusedStatementError(SinkError):
    """A target refused a statement for what the tables in it are: other tables may go on."""
