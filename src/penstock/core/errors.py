"""Every error Penstock raises on purpose, and what the operator should do about it.

PenstockError                 anything we can explain
├── UsageError                exit 2: a config or a command line that cannot work
│   ├── ConfigError           all the mistakes of one file, each with its line
│   ├── UnknownStreamError    a join reads a table that no capture has announced, or not yet
│   └── UnfitServerError      a server's settings or grants do not allow the work
├── UnavailableError          retryable: a server cannot be reached just now
│   ├── ConflictError         another writer changed a table at the same time
│   ├── ReplicaLagError       a replica has not applied what its primary has
│   └── SparkLostError        Spark's JVM ended under our hands
├── FencedError               another instance of this pipeline has taken over
│   └── DisplacedError        somebody took over, and it may have been an older task of this very instance
├── LockLostError             we no longer hold the leader's lock, so another instance may
├── TableStoppedError         one table cannot go on; the others do
├── LogError                  the log itself cannot be read on
│   ├── CorruptLogError       bytes that do not decode, or a checksum that differs
│   └── LogPurgedError        the log no longer reaches back to our position
├── SpoltError                user code of a spolt failed on a message
├── PositionError             what the target holds and what the log says disagree
│   └── UnreadableMessageError  a message of a topic, behind which nobody reads on
└── SinkError                 a target refused what it was given
    └── RefusedStatementError  a statement, for what its tables are
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

START_ANEW = (
    "start a new pipeline with an initial snapshot "
    "(another `pipeline` name, source `name`, `home` and target; MySQL and MariaDB: `start: snapshot`)"
)
"""What to do where everything must be read anew."""

READ_AGAIN = f"have the table's rows read again (penstock snapshot FILE TABLE), or {START_ANEW}"
"""What to do where the rows of one table must be read anew: tables with a primary key can be."""

FULL_REFRESH = "type: penstock snapshot FILE TABLE --full-refresh"
"""What to do where a table of a target cannot go on from where it is, and has a primary key."""

FILL_AGAIN = (
    f"{FULL_REFRESH} --link LINK, which empties and fills it in this target alone; without a primary key, --full-lock "
    f"in place of both (MySQL and MariaDB: it begins anew in all targets), or {START_ANEW}"
)
"""What to do where a table of one target lacks some of its rows."""

TEXTS_WITHOUT_CASE = "texts are equal that differ in upper and lower case alone, so rows of different keys become one"
CASE_THAT_COUNTS = (
    "name a `database` where case counts: one made with COLLATE CASE_SENSITIVE (Redshift), or without "
    "DEFAULT_DDL_COLLATION (Snowflake)"
)
"""What to do about a target where `TEXTS_WITHOUT_CASE`."""

NEW_SLOT = (
    "type: penstock failover FILE SOURCE --to HOST:PORT --new-slot, which makes a slot there and has the rows of all "
    "tables read again"
)
"""What to do where a PostgreSQL server does not have our slot, or the log behind our position."""

TRACKER_LIKE_SOURCE = (
    "give it a server like the source, which holds nothing else: tracker: {host: ..., user: ..., password_env: ...}"
)
"""What to do where the schema tracker does not know what the source does."""

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
    error_code: ClassVar[str] = "failed"
    """What errors of a class are called in every release; docs/errors.md explains each."""

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

    error_code = "usage"
    exit_code = 2


class ConfigError(UsageError):
    """One config file and every mistake in it."""

    error_code = "config"

    def __init__(self, file: str, mistakes: Sequence[str]) -> None:
        """List `mistakes`, each already with its line number."""
        listed = "\n".join(f"  {mistake}" for mistake in mistakes)
        super().__init__(f"{file} has {len(mistakes)} mistake(s):\n{listed}", "correct the lines above and try again")
        self.args = (file, tuple(mistakes))
        self.file = file
        self.mistakes = tuple(mistakes)


class UnknownStreamError(UsageError):
    """A join's file names a table that no capture of the pipeline has announced, or not yet."""

    error_code = "unknown-stream"


class UnfitServerError(UsageError):
    """A server answers, but its settings or our grants do not allow the work."""

    error_code = "unfit-server"


class UnavailableError(PenstockError):
    """A server cannot be reached now; trying again may help."""

    error_code = "unavailable"
    retryable = True


class ConflictError(UnavailableError):
    """Another writer changed a target's table while we did."""

    error_code = "conflict"


class ReplicaLagError(UnavailableError):
    """A replica did not apply in time what its primary had."""

    error_code = "replica-lags"


class SparkLostError(UnavailableError):
    """Spark's JVM is gone, and with it every link of this process; a new process goes on where the targets stand."""

    error_code = "spark-lost"


class FencedError(PenstockError):
    """Another instance of this pipeline took over; this one must not publish."""

    error_code = "fenced"


class DisplacedError(FencedError):
    """Somebody took the link over while we had it: another instance, or a task of ours that was thought to be gone.

    Whoever opens the link anew is told by its record which of the two it was.
    """

    error_code = "displaced"
    retryable = True


class LockLostError(PenstockError):
    """The leader's lock was taken from us while we ran; another instance may lead now."""

    error_code = "lock-lost"


class TableStoppedError(PenstockError):
    """One table cannot go on. The other tables do."""

    error_code = "table-stopped"

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
    """One table cannot go on just now: somebody holds it, or what it lacks is on its way; trying again may help."""

    error_code = "table-waits"
    retryable = True


class LargeTransactionError(TableWaitsError):
    """One table's transaction needs more memory than its target has just now; less of it at once may fit."""

    error_code = "large-transaction"


class LogError(PenstockError):
    """The log cannot be read on."""

    error_code = "log"


class CorruptLogError(LogError):
    """Bytes of the log do not decode, or their checksum differs."""

    error_code = "corrupt-log"


class LogPurgedError(LogError):
    """The log no longer reaches back to our position."""

    error_code = "log-purged"


class SpoltError(PenstockError):
    """User code of a spolt failed on a message, or on what it made of one; nothing was published."""

    error_code = "spolt"


class PositionError(PenstockError):
    """What a target holds and what the log says cannot both be true."""

    error_code = "position"


class UnreadableMessageError(PositionError):
    """A message in a topic of ours that is none of ours, or that lacks what came before it."""

    error_code = "unreadable-message"

    def __init__(self, place: tuple[str, int], offset: int, message: str, hint: str) -> None:
        """Name its (topic, partition) and its offset, what is wrong and what to do."""
        super().__init__(message, hint)
        self.args = (place, offset, message, hint)
        self.place = place
        self.offset = offset


class SinkError(PenstockError):
    """A target refused what it was given."""

    error_code = "sink"


class RefusedStatementError(SinkError):
    """A target refused a statement for what the tables in it are: other tables may go on."""

    error_code = "refused-statement"
