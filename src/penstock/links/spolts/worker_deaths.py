"""Remembers which messages ended the workers that processed them, in files that outlive a worker.

User code may end its process: by os._exit, in a library's native code, or because
memory runs out. Spark then starts the task again, which comes to the same message.
Before each call of user code its offsets are written down; who finds them there
knows what the worker before it ended with. That costs a call a microsecond.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from penstock.links.spolts.plan import InputRange

DEATHS_MAX = 3
"""So many workers a message may end; then it is at fault. One may have been ended by somebody else."""

_CALL = b"%20d %20d"


def open_deaths(folder: Path, given: InputRange) -> WorkerDeaths | None:
    """Remember deaths over `given` in `folder`; None where nothing can be written there, as perhaps on an executor."""
    try:
        return WorkerDeaths(folder, given)
    except OSError:
        return None


class WorkerDeaths:
    """The deaths over one topic partition, for a `with` block in which its messages are processed."""

    def __init__(self, folder: Path, given: InputRange) -> None:
        """Keep the files in `folder`; read what workers before this one ended with."""
        name = f"{sha256(f'{given.topic} {given.topic_id}'.encode()).hexdigest()[:32]}-{given.partition}"
        self._call, self._known = folder / f"{name}.call", folder / f"{name}.deaths"
        folder.mkdir(parents=True, exist_ok=True)
        self._deaths = {place: count for place, count in self._read().items() if place[1] > given.start}
        self._note_death(given.start)
        self._descriptor = os.open(self._call, os.O_CREAT | os.O_WRONLY, 0o600)

    def __enter__(self) -> Self:
        """Watch over a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note that the worker lives, whatever became of the messages."""
        os.close(self._descriptor)
        self._call.unlink(missing_ok=True)

    def begin(self, start: int, end: int) -> None:
        """Write down that user code is called with the messages of `[start, end)`."""
        os.pwrite(self._descriptor, _CALL % (start, end), 0)

    def is_suspect(self, start: int, end: int) -> bool:
        """Whether a worker ended with messages among `[start, end)`."""
        return any(begin < end and start < stop for begin, stop in self._deaths)

    def is_at_fault(self, offset: int) -> bool:
        """Whether the message at `offset` has ended as many workers as it may."""
        return self._deaths.get((offset, offset + 1), 0) >= DEATHS_MAX

    def forget(self, offset: int) -> None:
        """Let the message at `offset` be tried again: its code may have been mended."""
        self._deaths.pop((offset, offset + 1), None)
        self._write()

    def _note_death(self, read_from: int) -> None:
        """Count the call that a worker did not come back from."""
        if not self._call.exists():
            return
        written = self._call.read_bytes().split()
        # A power cut may leave anything.
        if len(written) == 2 and all(map(bytes.isdigit, written)) and int(written[1]) > read_from:  # noqa: PLR2004
            place = int(written[0]), int(written[1])
            self._deaths[place] = self._deaths.get(place, 0) + 1
        self._write()
        self._call.unlink()

    def _read(self) -> dict[tuple[int, int], int]:
        try:
            found = json.loads(self._known.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {(int(start), int(end)): int(count) for start, end, count in found}

    def _write(self) -> None:
        draft = self._known.with_suffix(".draft")
        draft.write_text(json.dumps([[*place, count] for place, count in self._deaths.items()]))
        draft.replace(self._known)
