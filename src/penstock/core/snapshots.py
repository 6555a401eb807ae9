"""Snapshots of tables while live changes flow: what is asked for, how far it is, and which rows give way.

A chunk of rows is read as the table was at a place of the log between two
others: the low one, up to which everything was published when the reading began,
and the high one, behind which nothing that the chunk holds was committed. It is
published where the log is read up to the high place or further, without the
rows that changed since the low one: of these the log tells. What is left is as
the table has it at that place. This is the way of DBLog (Andreakis,
Papapanagiotou: "DBLog: A Watermark Based Change-Data-Capture Framework", 2020),
with places of the log as watermarks in place of rows that are written.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.core.commands import shell_word
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.core.tables import TableSchema

CHUNK_ROWS: Final = 4_000
CHUNK_ROWS_MAX: Final = 100_000
KEYS_MAX: Final = 100_000
LOCK_MS: Final = 200
LOCK_MS_MIN: Final = 10
LOCK_MS_MAX: Final = 10_000
CANCELLED: Final = "its snapshot was cancelled"
_FIRST_LOCKED_ROWS: Final = 200
_FEW_LOCKED_ROWS: Final = 20
"""So few take about as long as one does, unless they are very large."""
_LOCK_SHARE: Final = 0.5
_GROWTH_MAX: Final = 2.0
_WINDOW_KEYS_MAX: Final = 1_000_000
_WHERE_LETTERS_MAX: Final = 16_384


class Wanted(StrEnum):
    """What people want of a snapshot."""

    RUN = "run"
    PAUSE = "pause"
    CANCEL = "cancel"


class Method(StrEnum):
    """How rows are read: the choice of whoever asks.

    `READ_ONLY` reads chunks between two places of the log. `BLACKHOLE` has the source
    copy chunks into a table that keeps no rows, under a short lock: the log itself then
    has them, in its own order. `FULL_LOCK` locks the table until all of it is read.
    """

    READ_ONLY = "read-only"
    BLACKHOLE = "blackhole"
    FULL_LOCK = "full-lock"


class Status(StrEnum):
    """What a snapshot is doing, or how it ended."""

    REQUESTED = "requested"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether it will do nothing any more."""
        return self in {Status.DONE, Status.FAILED, Status.CANCELLED}


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """Which rows, and how many at once.

    `where` is a condition in the source's SQL, "" for every row; `keys`, where
    there are any, are the primary keys that are read in place of all rows, each as JSON text.
    `rows_per_second` is the most, 0 for no limit. With `full_refresh` targets empty the
    table before they get its rows, as they always do with the method `FULL_LOCK`; where it
    names a `link`, the target of that link alone does. A lock of the method `BLACKHOLE` is
    to last `lock_ms` at most.
    """

    where: str = ""
    keys: tuple[str, ...] = ()
    chunk_rows: int = CHUNK_ROWS
    rows_per_second: int = 0
    full_refresh: bool = False
    method: Method = Method.READ_ONLY
    lock_ms: int = LOCK_MS
    link: str = ""


@dataclass(frozen=True, slots=True)
class Reread:
    """Rows of a table that are to be read again, for the source changed them and its log lacks that.

    `wheres` are conditions in the source's SQL, one of which each of the rows meets;
    with `all_rows` nobody knows one. With `gone` rows went, and nobody knows which.
    """

    wheres: tuple[str, ...] = ()
    all_rows: bool = False
    gone: bool = False

    def __or__(self, other: Reread) -> Reread:
        """What is to be read for both."""
        all_rows, gone = self.all_rows or other.all_rows, self.gone or other.gone
        wheres = () if all_rows or gone else tuple(dict.fromkeys((*self.wheres, *other.wheres)))
        if sum(map(len, wheres)) > _WHERE_LETTERS_MAX:
            return Reread(all_rows=True)
        return Reread(wheres, all_rows, gone)

    @property
    def options(self) -> SnapshotOptions:
        """The snapshot that reads them."""
        where = "" if self.all_rows or self.gone else " OR ".join(self.wheres)
        return SnapshotOptions(where=where, full_refresh=self.gone)

    def to_mapping(self) -> dict[str, object]:
        """As JSON values."""
        return {"wheres": list(self.wheres), "all_rows": self.all_rows, "gone": self.gone}

    @classmethod
    def from_mapping(cls, fields: Mapping[str, object]) -> Reread:
        """Read it back."""
        wheres = fields["wheres"]
        texts = tuple(map(str, wheres)) if isinstance(wheres, list) else ()
        return cls(texts, fields["all_rows"] is True, fields["gone"] is True)


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """How far the snapshot of `table` is, as the position record has it: committed together with its rows.

    `cursor` is behind which key the first row is that was not read, in the words of
    whoever reads rows, "" at the start. `left` are the ranges of keys that were not read
    (core/chunk_plan), () for all from `cursor` on. `fills` says that the table had no
    rows in its topic when the snapshot began, so that it lacks rows until it is done; `mends`, that it has rows until
    then which are not those of the source. `link` is the one whose target alone has no rows of it
    until then.
    """

    table: str
    cursor: str = ""
    rows: int = 0
    fills: bool = False
    is_done: bool = False
    mends: bool = False
    left: tuple[tuple[str, str], ...] = ()
    link: str = ""

    @property
    def ranges(self) -> tuple[tuple[str, str], ...]:
        """The ranges of keys that are left to read: where each begins and ends."""
        return self.left or ((self.cursor, ""),)

    def after(self, rows: int, left: tuple[tuple[str, str], ...]) -> SnapshotProgress:
        """The progress with so many more `rows` when `left` is left.

        Releases that knew one range at a time read again from `cursor` on.
        """
        cursor = left[0][0] if left else self.cursor
        kept = () if left == ((cursor, ""),) else left
        return replace(self, cursor=cursor, rows=self.rows + rows, is_done=not left, left=kept)

    def again(self) -> SnapshotProgress:
        """The progress of one that begins again, for its cursors say nothing any more."""
        return replace(self, cursor="", rows=0, left=())

    def to_mapping(self) -> dict[str, object]:
        """The progress as JSON values."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, fields: Mapping[str, object]) -> SnapshotProgress:
        """Read it back."""
        return cls(
            table=str(fields["table"]),
            cursor=str(fields["cursor"]),
            rows=int(str(fields["rows"])),
            fills=fields["fills"] is True,
            is_done=fields["is_done"] is True,
            mends=fields.get("mends") is True,
            left=_ranges(fields.get("left")),
            link=str(fields.get("link", "")),
        )


def _ranges(found: object) -> tuple[tuple[str, str], ...]:
    return tuple([(str(begin), str(end)) for begin, end in found]) if isinstance(found, list | tuple) else ()


class Window:
    """What the log tells of a table from a chunk's low place on."""

    def __init__(self) -> None:
        """Open it: everything up to here is published."""
        self._changed: set[bytes | None] = set()
        self._parts: set[bytes | None] = set()
        self._is_void = False

    def saw(self, keys: Iterable[bytes | None]) -> None:
        """Rows with these keys changed."""
        self._changed.update(keys)
        if len(self._changed) > _WINDOW_KEYS_MAX:
            self.void()

    def saw_parts(self, keys: Iterable[bytes | None]) -> None:
        """Of the rows with these keys some changed values are known, and not those that stayed."""
        self._parts.update(keys)

    def void(self) -> None:
        """The table may have become another one: the chunk does not count and is read again."""
        self._is_void = True
        self._changed.clear()
        self._parts.clear()

    @property
    def is_void(self) -> bool:
        """Whether the chunk does not count, whatever it holds."""
        return self._is_void

    def has_parts_of(self, keys: Iterable[bytes | None]) -> bool:
        """Whether a row with one of `keys` would give way to a part of a row: its other values would be lost."""
        return not self._parts.isdisjoint(keys)

    def unchanged(self, keys: Sequence[bytes | None]) -> list[int]:
        """Which of a chunk's rows hold, by their `keys`: the indices of those that did not change."""
        return [index for index, key in enumerate(keys) if key not in self._changed]


def first_locked_rows(rows_max: int) -> int:
    """How many rows to copy under the first lock, when nobody knows yet how long that takes."""
    return min(rows_max, _FIRST_LOCKED_ROWS)


def next_locked_rows(rows: int, took_ms: float, lock_ms: int, rows_max: int) -> int:
    """How many rows to copy under the next lock, if `rows` of them `took_ms`.

    Half the limit is aimed at, so that a server that is twice as slow for a moment
    keeps within it. It grows slowly and shrinks at once. Few rows become fewer only
    beyond the limit itself: a busy server takes half of it for one row, too, and a
    snapshot row by row would hardly end.
    """
    found = int(rows * min(_GROWTH_MAX, lock_ms * _LOCK_SHARE / max(took_ms, 0.001)))
    if took_ms <= lock_ms:
        found = max(found, min(2 * rows, _FEW_LOCKED_ROWS))
    return max(1, min(found, rows_max))


def require_key(schema: TableSchema) -> None:
    """Raise UsageError for a table without a primary key: nobody could tell which of its rows changed meanwhile."""
    if not schema.key:
        message = f"table {schema.table} has no primary key, by which a snapshot reads its rows"
        typed = shell_word(schema.table)
        hint = (
            f"type: penstock snapshot FILE {typed} --full-lock (MySQL and MariaDB: nobody writes to the table "
            "until all of it is read); or give it a key in the source: ALTER TABLE ... ADD PRIMARY KEY (...)"
        )
        raise UsageError(message, hint)
