"""Replays the dead letters of a spolt for who presses the button: by the command, in a process of its own.

User code may do anything to the process that runs it, and is to be read anew each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError, UnavailableError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS: Final = 300.0
_TOLD_CHARACTERS: Final = 2000
_WHAT_TO_DO: Final = "  what to do: "


class LetterReplays:
    """Replays of one pipeline, one at a time: a second one of a spolt would fence the first."""

    def __init__(self, file: Path) -> None:
        """Replay letters of the pipeline that `file` describes."""
        self._file = file
        self._is_busy = False

    async def replay(self, spolt: str) -> str:
        """Replay all letters that were not yet; return what became of them.

        Raises PenstockError for what the command says went wrong, UnavailableError while another
        replay is under way and for one that takes more than 5 minutes: what it published stays.
        """
        if self._is_busy:
            message = "another replay is under way"
            raise UnavailableError(message, "try again when it has ended")
        self._is_busy = True
        try:
            return await self._run(spolt)
        finally:
            self._is_busy = False

    async def _run(self, spolt: str) -> str:
        by_hand = f"type: penstock deadletters replay {self._file} {spolt}"
        command = [sys.executable, "-m", "penstock.cli.main", "deadletters", "replay", str(self._file), spolt, "--json"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            async with asyncio.timeout(_SECONDS):
                output, errors = await process.communicate()
        except TimeoutError as error:
            message = f"the replay of {spolt} has taken {_SECONDS:.0f} s, and was ended; what it published stays"
            raise UnavailableError(message, f"{by_hand}, which takes its time") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        told = describe(spolt, output.decode(errors="replace"))
        if told is None:
            raise _refusal(errors.decode(errors="replace"), process.returncode, by_hand)
        return told


def describe(spolt: str, output: str) -> str | None:
    """Say in one sentence what a replay did, as the command told it with `--json`; None where it did not.

    User code may have printed something before.
    """
    try:
        told = json.loads(output[f"\n{output}".rfind("\n{\n") :])
        replayed, before, failed = (told[name] for name in ("replayed", "replayed_before", "failed"))
    except (ValueError, TypeError, KeyError):
        return None
    said = f"{spolt}: {len(replayed):,} dead letter(s) replayed"
    if before:
        said += f", {len(before):,} had been before"
    if failed:
        offset, reason = next(iter(failed.items()))
        said += f", {len(failed):,} failed again; the one at offset {offset}: {reason[:_TOLD_CHARACTERS]}"
    return said


def _refusal(errors: str, code: int | None, by_hand: str) -> PenstockError:
    message, there, rest = errors[-_TOLD_CHARACTERS:].rpartition(_WHAT_TO_DO)
    if not there:
        text = f"the replay ended with status {code}, and did not say what it did"
        return UsageError(text, f"{by_hand}, and see what it prints")
    said = message.strip().splitlines()
    return UsageError(said[-1] if said else f"the replay ended with status {code}", rest.splitlines()[0])
