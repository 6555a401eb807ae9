"""Logs: events with fields, as JSON lines in a file and as human lines on the console."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog

from penstock.cli.plain_text import printable
from penstock.core.commands import name_file
from penstock.core.errors import UsageError

_FILE_BYTES_MAX = 16 * 1024 * 1024
_FILES_MAX = 5


def open_logs(directory: Path, *, console: bool, pipeline_file: Path | None = None) -> Path:
    """Send every event of this process to `penstock.log` in `directory`, and to standard error if `console`.

    Give `console=False` under a live view, which owns the screen. The file is
    JSON, one object per line, and rotates at 16 MiB, 5 times. Events of other
    libraries come along from level WARNING. What an event has as its `story`, many
    lines of it, is for the file alone, and so are tracebacks. Commands in what events
    tell get the name of the `pipeline_file`. Returns the file. A second call
    replaces what the first one set up. Raises UsageError if it cannot be written.
    """
    file = directory / "penstock.log"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        to_file = RotatingFileHandler(file, maxBytes=_FILE_BYTES_MAX, backupCount=_FILES_MAX - 1, encoding="utf-8")
    except OSError as error:
        message = f"cannot write the log {file}: {error.strerror}"
        raise UsageError(
            message, "check the config's home: it must be a directory that this user may write to"
        ) from error
    to_file.setFormatter(_formatter(structlog.processors.JSONRenderer()))
    handlers: list[logging.Handler] = [to_file]
    if console:
        to_console = logging.StreamHandler(sys.stderr)
        to_console.setFormatter(_formatter(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())))
        handlers.append(to_console)
    _install(handlers, "FILE" if pipeline_file is None else str(pipeline_file))
    return file


def record_defect(error: BaseException) -> Path:
    """Write the traceback of `error` to the log, or to a file of its own if no log is open; returns the file."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RotatingFileHandler):
            logging.getLogger("penstock").error("defect", exc_info=error)
            return Path(handler.baseFilename)
    descriptor, name = tempfile.mkstemp(prefix="penstock-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))
    return Path(name)


def _install(handlers: list[logging.Handler], pipeline_file: str) -> None:
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, RotatingFileHandler) or getattr(old, "stream", None) is sys.stderr:
            root.removeHandler(old)
            old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("penstock").setLevel(logging.INFO)
    logging.captureWarnings(True)  # noqa: FBT003 - the standard library's signature
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            partial(_name_file, pipeline_file),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _formatter(renderer: structlog.typing.Processor) -> logging.Formatter:
    processors: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if isinstance(renderer, structlog.processors.JSONRenderer):
        processors.append(structlog.processors.format_exc_info)
    else:
        processors.append(_in_short)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(), processors=[*processors, renderer]
    )


def _in_short(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Leave to the file what takes many lines: stories and tracebacks, of which the error's own words remain.

    What is left is for a terminal, and other people's names and values are no codes for it.
    """
    event.pop("story", None)
    raised = event.pop("exc_info", None)
    if raised is True:
        raised = sys.exc_info()
    error = raised[1] if isinstance(raised, tuple) else raised
    if isinstance(error, BaseException):
        event.setdefault("error", f"{type(error).__name__}: {error}")
    for name, told in event.items():
        if isinstance(told, str):
            event[name] = printable(told)
    return event


def _name_file(
    file: str, _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for name, told in event.items():
        if isinstance(told, str):
            event[name] = name_file(told, file)
    return event


def _shared_processors() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
