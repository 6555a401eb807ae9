"""The `penstock` command: finds the command that was asked for, and tells every error in one way.

Commands are imported when they run, not before: `penstock --help` must not
wait for Spark. Each is a module of this package with `app`, a typer.Typer of
one command or a group of them.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from penstock.cli.arguments import file_of
from penstock.cli.console import say_error, say_note
from penstock.core.commands import name_file
from penstock.core.errors import PenstockError, UsageError
from penstock.core.extras import extra_of, how_to_install
from penstock.release import RELEASE

if TYPE_CHECKING:
    from types import FrameType

_COMPLETION_OPTIONS = frozenset({"install_completion", "show_completion"})
_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM

_COMMANDS = {
    "demo": "Run the main job end to end on real local servers, with a live page.",
    "init": "Write a pipeline's first file from some answers, and check it with its servers.",
    "run": "Run a pipeline until it is stopped; with --once, until it has caught up.",
    "check": "Explain a config; with --connect, verify servers, settings and grants.",
    "status": "Show links, positions, lag per table, retention and problems, running or not.",
    "snapshot": "Read rows of tables again while live changes flow; pause, resume, cancel, show it.",
    "table": "Pause, resume, skip a change of, or drop one table at the links that load it.",
    "web": "Serve a pipeline's live page, metrics and health, running or not.",
    "failover": "Let a source be read from a new master, at the position that the pipeline has reached.",
    "deadletters": "Show and replay what spolts could not process.",
    "joinery": "Show what joins read and make.",
    "snowflake": "Show or make the landing tables, streams and tasks of Snowflake sinks.",
    "police": "Compare topics with the file's rules of retention, compaction and replication; correct what differs.",
    "sql": "Query a sink, also while the pipeline runs.",
    "audit": "Compare targets with their sources, and name the rows that differ.",
    "schematizer": "Serve or show the registry of schemas.",
    "docs": "Print a page of the documentation; without a name, which pages there are.",
    "bench": "Measure Penstock beside comparable tools on this machine.",
    "faults": "Break a pipeline part by part, and see that nothing is lost or doubled.",
    "dev": "Start and stop real servers on loopback for development.",
}


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 config or usage, 130 Ctrl-C, 143 SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    _open_streams()
    try:
        app(prog_name="penstock")
    except SystemExit as end:
        _leave(end)
    raise SystemExit(0)


def _leave(end: SystemExit) -> None:
    """End at once, when all that was opened is closed.

    Python takes a second to take itself apart, and libraries print what it leaves of them.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        raise end from None
    if isinstance(end.code, int):
        os._exit(end.code)
    raise end


def _open_streams() -> None:
    """Let whatever is printed be printed: into nothing where a stream is closed, escaped where it has no character."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Of files that are opened later none is to get the number, and then what is printed.
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class LazyCommands(TyperGroup):
    """The group of all commands. Listing them imports none; running one imports that one."""

    # Typer's own signatures name classes that it keeps private, hence Any.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Find the command that `args` begin with, and put the real one in the place of its stub."""
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        command = typer.main.get_command(import_module(f"penstock.cli.{name}").app)
        # Typer would offer to install shell completion with every command that was made by itself.
        command.params = [option for option in command.params if option.name not in _COMPLETION_OPTIONS]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command; whatever it raises becomes words for the operator and an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
            # These are Typer's own ways to end: --help, wrong usage (exit code 2), a reader that went away.
            raise
        except KeyboardInterrupt as error:
            say_note("stopped; run again to go on")
            raise typer.Exit(_INTERRUPTED) from error
        except PenstockError as error:
            file = file_of(ctx)
            say_error(name_file(error.message, file), name_file(error.hint, file), error.error_code)
            raise typer.Exit(error.exit_code) from error
        except ModuleNotFoundError as error:
            extra = extra_of(error.name)
            if extra is None:
                raise _defect(error) from error
            say_error(f"this needs the package {error.name}, which is not installed", how_to_install(extra))
            raise typer.Exit(UsageError.exit_code) from error
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise _defect(error) from error
            say_error(f"a file, or what is printed, finds no room: {error}", "free some space, and run again")
            raise typer.Exit(1) from error
        except Exception as error:  # the one broad except: nobody is above us to handle it
            raise _defect(error) from error


def _defect(error: Exception) -> typer.Exit:
    from penstock.cli.logs import record_defect  # noqa: PLC0415 - --help need not wait for it

    file = record_defect(error)
    say_error(
        f"unexpected {type(error).__name__}: {error}",
        f"this is a defect of Penstock: please report it with the traceback at the end of {file}",
    )
    return typer.Exit(1)


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it with the option's value
    if wanted:
        typer.echo(f"penstock {RELEASE}")
        raise typer.Exit


@app.callback()
def penstock(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Carry every committed change of MySQL, MariaDB or PostgreSQL through Kafka into a warehouse, on Spark.

    Begin with "penstock demo". Then write a config with "penstock init FILE", check
    it with "penstock check FILE --connect", and start it with "penstock run FILE".
    """


def _stub() -> None:
    """Stand in for a command until it is resolved."""


for _name, _summary in _COMMANDS.items():
    app.command(_name, help=_summary)(_stub)


def _end(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM: unwind like any exit, so that children are ended and locks let go."""
    sys.exit(_TERMINATED)


if __name__ == "__main__":
    main()
