"""`penstock init`: write a pipeline's first file, and see whether its servers can do it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import say_error
from penstock.cli.option_groups import grouped
from penstock.core.commands import shell_word
from penstock.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.config.first_file import FirstFile, Login, SourceKind

app = typer.Typer()

FirstFilePath = Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; nothing may be there yet.")]


@dataclass(frozen=True)
class From:
    """The database that is captured."""

    source: Annotated[str | None, typer.Option("--from", metavar="KIND", help="mysql (MariaDB too) or postgres.")] = (
        None
    )
    host: Annotated[str | None, typer.Option(help="Its host.")] = None
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Its port.", show_default="its kind's")] = None
    user: Annotated[str | None, typer.Option(help="The user to log in as.")] = None
    password_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the password.")
    ] = None
    database: Annotated[str | None, typer.Option(help="PostgreSQL only: the database.")] = None
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="PATTERN", help="Tables: shop.orders or shop.*; repeat it."),
    ] = None


@dataclass(frozen=True)
class To:
    """The targets."""

    to: Annotated[list[str] | None, typer.Option("--to", metavar="KIND", help="duckdb or postgres; repeat it.")] = None
    path: Annotated[str | None, typer.Option(metavar="PATH", help="The DuckDB file.")] = None
    to_host: Annotated[str | None, typer.Option(help="The target PostgreSQL's host.")] = None
    to_port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 5432
    to_user: Annotated[str | None, typer.Option(help="The user to log in there as.")] = None
    to_password_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds that password.")
    ] = None
    to_database: Annotated[str | None, typer.Option(help="The database.")] = None


@app.command()
@grouped
def init(
    file: FirstFilePath = Path("pipeline.yaml"),
    *,
    origin: From,
    target: To,
    name: Annotated[str | None, typer.Option(help="The pipeline's name.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take options, and defaults for the others.")] = False,
) -> None:
    """Write a pipeline's first file from some answers, and check it with its servers.

    It asks only for what no option gives. It never asks for passwords: the file
    names the environment variables that hold them. It never overwrites a file, and
    keeps the new one if the servers refuse it, with what to do, or asks again. For
    other targets and keys: penstock docs targets, penstock docs config.
    """
    from penstock.config.first_file import render_first_file  # noqa: PLC0415 - --help need not wait for it
    from penstock.config.load import load, parse  # noqa: PLC0415

    if file.exists():
        raise _is_there(file)
    questions = _Questions(is_asking=not yes)
    is_written = False
    while True:
        answers = _answers(questions, origin, target, name)
        text = render_first_file(answers)
        try:
            parse(text, f"what {file} would be", file.resolve().parent)
            _write(file, text, is_ours=is_written)
            is_written = True
            typer.echo(f"{file} is written")
            load(file)
            _check(file, [each.password_env for each in (answers.source, answers.postgres) if each is not None])
        except (ConfigError, typer.Exit) as error:
            if yes or not _wants_to_correct(error):
                raise
            questions.begin_again()
        else:
            return


def _wants_to_correct(error: Exception) -> bool:
    """Say what is wrong, if nobody has, and whether somebody is there who wants to answer again."""
    if isinstance(error, ConfigError):
        say_error(error.message, error.hint, error.error_code)
    try:
        return typer.confirm("\nCorrect your answers? Enter keeps each as it is", default=True, err=True)
    except typer.Abort:
        return False


@dataclass
class _Questions:
    """Asks for what no option says, unless nobody is to be asked; later once more for everything, with what was said.

    `answered` are the answers so far, by option.
    """

    is_asking: bool
    is_again: bool = False
    answered: dict[str, str] = field(default_factory=dict)

    def begin_again(self) -> None:
        """Ask from now on for everything, with the answers so far as what Enter means."""
        self.is_again = True

    def ask(
        self,
        given: str | None,
        question: str,
        option: str,
        default: str | None = None,
        read: Callable[[str], str] = str,
    ) -> str:
        """Return what was given, answered, or is the default. Raises UsageError for none of them.

        An answer that `read` refuses is asked for again.
        """
        if given is not None and not self.is_again:
            answer = given
        elif self.is_asking:
            answer = str(typer.prompt(question, default=self.answered.get(option, default), value_proc=read))
        elif default is None:
            message = f"--yes asks nothing, and {option} is not given"
            raise UsageError(message, f"give {option}, or leave --yes out")
        else:
            answer = default
        self.answered[option] = answer
        return answer


def _read_name(answer: str) -> str:
    from penstock.config.spec import NAME_PATTERN  # noqa: PLC0415 - see `init`

    if not re.fullmatch(NAME_PATTERN, answer):
        message = f"{answer} is no name: write a letter, then letters, digits, - and _, 48 at most"
        raise typer.BadParameter(message)
    return answer


def _answers(questions: _Questions, origin: From, target: To, name: str | None) -> FirstFile:
    from penstock.config.first_file import PORTS, FirstFile, Login  # noqa: PLC0415 - see `init`

    question = "What is captured: mysql (MariaDB too) or postgres"
    kind = _kind(questions.ask(origin.source, question, "--from", "mysql", _again_unless(_kind)))
    host = questions.ask(origin.host, "On which host", "--host", "127.0.0.1")
    port = str(origin.port) if origin.port is not None else None
    port = questions.ask(port, "Its port", "--port", str(PORTS[kind]), _again_unless(_port))
    database = questions.ask(origin.database, "Which database", "--database") if kind == "postgres" else ""
    user = questions.ask(origin.user, "Whom to log in as", "--user", "penstock")
    env = questions.ask(origin.password_env, _ENV, "--password-env", "SOURCE_PASSWORD")
    source = Login(host, _port(port), user, env, database)
    given = ",".join(origin.tables or ()) or None
    question = "Which tables (shop.orders, shop.*)"
    tables = _tables(questions.ask(given, question, "--table", read=_again_unless(_tables)))
    given = ",".join(target.to or ()) or None
    question = "Into which targets: duckdb, postgres"
    kinds = _targets(questions.ask(given, question, "--to", "duckdb", _again_unless(_targets)))
    schema = tables[0].partition(".")[0].strip("!*?")
    pipeline = questions.ask(name, "A name for the pipeline", "--name", schema or "shop", _read_name)
    path = None
    if "duckdb" in kinds:
        # To DuckDB, the file's name is a database's: `shop.orders` would be ambiguous in shop.duckdb.
        free = "target" if schema.casefold() == "warehouse" else "warehouse"
        path = questions.ask(target.path, "The DuckDB file", "--path", f"{free}.duckdb")
    postgres = _target_login(questions, target, pipeline) if "postgres" in kinds else None
    return FirstFile(pipeline, kind, source, tables, path, postgres)


_PORT_MAX = 65_535
_ENV = "Which environment variable holds the password"


def _target_login(questions: _Questions, target: To, pipeline: str) -> Login:
    from penstock.config.first_file import Login  # noqa: PLC0415 - see `init`

    host = questions.ask(target.to_host, "The target PostgreSQL's host", "--to-host", "127.0.0.1")
    port = str(target.to_port)
    if questions.is_again:
        port = questions.ask(None, "Its port", "--to-port", port, _again_unless(_port))
    return Login(
        host,
        _port(port),
        questions.ask(target.to_user, "Whom to log in there as", "--to-user", "penstock"),
        questions.ask(target.to_password_env, _ENV, "--to-password-env", "TARGET_PASSWORD"),
        questions.ask(target.to_database, "Which database there", "--to-database", pipeline),
    )


def _again_unless(reads: Callable[[str], object]) -> Callable[[str], str]:
    """Have an answer asked for again that `reads` refuses."""

    def read(answer: str) -> str:
        try:
            reads(answer)
        except UsageError as error:
            message = f"{error.message}: {error.hint}"
            raise typer.BadParameter(message) from error
        return answer

    return read


def _tables(text: str) -> list[str]:
    if tables := _listed(text):
        return tables
    message = "a pipeline with no table captures nothing"
    raise UsageError(message, "name some: shop.orders, or shop.*")


def _targets(text: str) -> list[str]:
    kinds = _listed(text)
    if not kinds:
        message = "a pipeline with no target loads nothing"
        raise UsageError(message, "name one: duckdb, or postgres")
    if strange := sorted(set(kinds) - {"duckdb", "postgres"}):
        message = f"a first file has targets of the kinds duckdb and postgres, not {', '.join(strange)}"
        raise UsageError(message, "write one of those, and put others in by hand: penstock docs targets")
    return kinds


def _kind(text: str) -> SourceKind:
    match text.strip().lower():
        case "mysql" | "mariadb":
            return "mysql"
        case "postgres" | "postgresql":
            return "postgres"
        case _:
            message = f"{text} is no kind of source"
            raise UsageError(message, "say mysql (for MariaDB too) or postgres")


def _port(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= _PORT_MAX:
        return int(text)
    message = f"{text} is no port"
    raise UsageError(message, "give a number from 1 to 65535")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _write(file: Path, text: str, *, is_ours: bool) -> None:
    """Write `file` whole or not at all. Raises UsageError for one that is there, unless it `is_ours`."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        # A rename alone would replace what somebody else has put there meanwhile.
        if not is_ours:
            file.open("x").close()
        unfinished.replace(file)
    except FileExistsError as error:
        raise _is_there(file) from error
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        hint = "name a file in a directory with room that you may write to: penstock init FILE"
        raise UsageError(message, hint) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _is_there(file: Path) -> UsageError:
    message = f"{file} is there already, and init overwrites nothing"
    return UsageError(
        message, f"name another file: penstock init FILE; or check this one: penstock check {shell_word(file)}"
    )


def _check(file: Path, names: list[str]) -> None:
    """Check the file with its servers, if the passwords are at hand."""
    missing = [name for name in names if name not in os.environ]
    if missing:
        exports = "; ".join(f"export {name}=..." for name in missing)
        typer.echo(f"its servers were not asked: {exports}; then type: penstock check {shell_word(file)} --connect")
        return
    from penstock.cli.check import check  # noqa: PLC0415 - see `init`

    check(file, connect=True)
