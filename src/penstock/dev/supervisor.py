"""A small process that holds one service for `penstock dev`, after that command has returned.

    python -m penstock.dev.supervisor SERVICE DIRECTORY [PORT]

It writes one line of JSON to standard output, {"facts": ...} once the service
is ready or {"error": ...} when it cannot be, and then holds the service until
it is sent SIGTERM or the service ends by itself. While it lives it holds a lock
on DIRECTORY/SERVICE.lock, so nobody has to trust a process id in a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UsageError
from penstock.dev.services import Service, start_service

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOOK_SECONDS = 1.0


def main(arguments: list[str]) -> int:
    """Hold the service; 0 if it was stopped on request, 1 if it ended by itself, else the error's exit code."""
    service, directory = Service(arguments[0]), Path(arguments[1])
    port = int(arguments[2]) if len(arguments) > 2 else None  # noqa: PLR2004 - the third argument may be missing
    stop_wanted = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop_wanted.set())
    try:
        with _owned(service, directory), start_service(service, directory / service.value, port) as server:
            facts = {"service": service.value, "pid": server.pid, "supervisor": os.getpid(), **server.facts()}
            with _published(directory / f"{service.value}.json", facts):
                while not stop_wanted.wait(_LOOK_SECONDS):
                    if not server.alive():
                        return 1
    except PenstockError as error:
        _answer({"error": {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}})
        return error.exit_code
    return 0


@contextlib.contextmanager
def _owned(service: Service, directory: Path) -> Iterator[None]:
    """Hold the service's lock; UsageError if another supervisor has it."""
    with (directory / f"{service.value}.lock").open("w") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"{service.value} is already being held in {directory}"
            raise UsageError(message, "see `penstock dev status`") from error
        yield


@contextlib.contextmanager
def _published(file: Path, facts: Mapping[str, str | int]) -> Iterator[None]:
    """Tell whoever started us, and keep the facts in a file for as long as they are true."""
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(facts, indent=1))
    draft.replace(file)
    _answer({"facts": facts})
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _answer(answer: Mapping[str, object]) -> None:
    """Write the one line, and let go of the pipe: its reader ends long before we do."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.close(silence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
