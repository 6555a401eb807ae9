"""Replays the dead letters of a spolt for who presses the button: by the command, in a process of its own.

User code may do anything to the process that runs it, and is to be read anew each time.
The process dies with the page's, and starts no servers: it would hold the pipeline's
lock as long as user code hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from penstock.core.commands import shell_word
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.web.replay_answers import ANSWER_BYTES_MAX, read_answer
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.web.replay_answers import ReplayCounts

_SECONDS: Final = 300.0


class LetterReplays:
    """Replays of one pipeline, one at a time: a second one of a spolt would fence the first."""

    def __init__(self, file: Path) -> None:
        """Replay letters of the pipeline that `file` describes."""
        self._file = file
        self._is_busy = False

    async def replay(self, spolt: str) -> ReplayCounts:
        """Replay all letters that were not yet; return what became of them.

        Raises UsageError for what the command says went wrong; UnavailableError while a server
        is away or another replay is under way, and for one that takes more than 5 minutes:
        what it published stays.
        """
        if self._is_busy:
            message = "another replay is under way"
            raise UnavailableError(message, "try again when it has ended")
        self._is_busy = True
        try:
            return await self._run(spolt)
        finally:
            self._is_busy = False

    async def _run(self, spolt: str) -> ReplayCounts:
        by_hand = f"type: penstock deadletters replay {shell_word(self._file)} {spolt}"
        command = [sys.executable, "-m", "penstock.cli.main", "deadletters", "replay", str(self._file), spolt]
        with TemporaryFile() as file:
            command += ["--answer-fd", str(file.fileno())]
            # What user code prints may be without end, and is nobody's answer.
            nowhere = asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(
                *tethered(command), stdin=nowhere, stdout=nowhere, stderr=nowhere, pass_fds=[file.fileno()]
            )
            try:
                async with asyncio.timeout(_SECONDS):
                    code = await process.wait()
            except TimeoutError as error:
                message = f"the replay of {spolt} has taken {_SECONDS:.0f} s, and was ended; what it published stays"
                raise UnavailableError(message, f"{by_hand}, which takes its time") from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            file.seek(0)
            answer = read_answer(file.read(ANSWER_BYTES_MAX))
        if answer is None:
            message = f"the replay ended with status {code}, and did not say what it did"
            raise UsageError(message, f"{by_hand}, and see what it prints")
        if isinstance(answer, PenstockError):
            raise answer
        return answer
