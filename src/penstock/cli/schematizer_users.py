"""`penstock schematizer user`: who may do what in a registry."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.table import Table

from penstock.cli.console import open_console
from penstock.config.secrets import secret
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from penstock.schematizer.security.users import GrantEntry

app = typer.Typer(no_args_is_help=True, help="Say who may do what: edit a users file.")

UsersFile: TypeAlias = Annotated[Path, typer.Option("--users", help="The file; it is made if there is none.")]
UserName: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The user.", show_default=False)]
_DEFAULT = Path("users.yaml")


@app.command()
def add(
    name: UserName,
    *,
    users: UsersFile = _DEFAULT,
    role: Annotated[str, typer.Option(help="read, write or admin; without it, a user keeps what it had.")] = "",
    namespace: Annotated[list[str] | None, typer.Option(help="Only in namespaces like this one (shop*).")] = None,
    subject: Annotated[list[str] | None, typer.Option(help="Only for subjects like this one (:.lab:*).")] = None,
    password_env: Annotated[
        str, typer.Option(help='The environment variable that has the password; "" asks for it; "-" for none.')
    ] = "",
) -> None:
    """Add a user, or give one another password and role. The password is asked for, or read from standard input."""
    from penstock.schematizer.security.users_edit import put_user  # noqa: PLC0415 - --help need not wait for it

    roles = (_grant(role, namespace, subject),) if role else ()
    if not role and (namespace or subject):
        message = "--namespace and --subject say where a role holds, and there is no --role"
        raise UsageError(message, "add --role read, write or admin")
    is_new = put_user(users, name, _read_password(name, password_env), roles)
    typer.echo(f"user {name} is {'new' if is_new else 'changed'} in {users}")
    if is_new and not roles:
        typer.echo("it may do nothing yet: give it a --role")


@app.command()
def token(
    name: UserName,
    *,
    users: UsersFile = _DEFAULT,
    token_name: Annotated[str, typer.Option("--name", help="What the token is for; one by that name is replaced.")],
) -> None:
    """Give a user a token, and print it. It is shown this once: only its hash is kept."""
    from penstock.schematizer.security.users_edit import put_token  # noqa: PLC0415 - --help need not wait for it

    typer.echo(put_token(users, name, token_name))


@app.command("list")
def list_users(*, users: UsersFile = _DEFAULT) -> None:
    """List users with their roles and tokens."""
    from penstock.schematizer.security.users import read_users  # noqa: PLC0415 - --help need not wait for it

    found = read_users(users)
    table = Table()
    for heading in ("user", "password", "tokens", "roles"):
        table.add_column(heading, overflow="fold")
    if found.anonymous is not None:
        table.add_row("(anybody)", "", "", f"{found.anonymous} everywhere")
    for name, entry in found.users.items():
        roles = "\n".join(_told(each) for each in entry.roles)
        table.add_row(name, "yes" if entry.password else "no", "\n".join(entry.tokens), roles)
    open_console().print(table)


@app.command()
def remove(
    name: UserName,
    *,
    users: UsersFile = _DEFAULT,
    token_name: Annotated[str, typer.Option("--token", help="Remove only this token.")] = "",
) -> None:
    """Remove a user, or one of its tokens. A running service applies it within a second."""
    from penstock.schematizer.security.users_edit import remove_user  # noqa: PLC0415 - --help need not wait for it

    remove_user(users, name, token_name)
    typer.echo(f"{f'token {token_name} of user' if token_name else 'user'} {name} is gone from {users}")


def _grant(role: str, namespaces: list[str] | None, subjects: list[str] | None) -> GrantEntry:
    from pydantic import ValidationError  # noqa: PLC0415 - --help need not wait for it

    from penstock.schematizer.security.users import GrantEntry  # noqa: PLC0415 - --help need not wait for it

    given = {"role": role, "namespaces": namespaces or None, "subjects": subjects or None}
    try:
        return GrantEntry.model_validate(given)
    except ValidationError as error:
        mistakes = "; ".join(f"--{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise UsageError(mistakes, "write it like --role write --namespace 'shop*'") from None


def _read_password(name: str, variable: str) -> str:
    if variable == "-":
        return ""
    if variable:
        password = secret(variable)
    elif sys.stdin.isatty():
        password = str(typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    else:
        password = sys.stdin.readline().rstrip(os.linesep)
    if not password:
        message = "the password is empty"
        raise UsageError(message, "say --password-env - for a user with tokens alone")
    return password


def _told(entry: GrantEntry) -> str:
    where = [*(entry.namespaces or ()), *(f"subject {each}" for each in entry.subjects or ())]
    return f"{entry.role} in {', '.join(where)}" if where else f"{entry.role} everywhere"
