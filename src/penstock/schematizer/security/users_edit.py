"""Changes of a users file, each written in one step: a service that reads it sees all of a change or nothing."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.schematizer.security.credentials import hash_password, hash_token, new_token
from penstock.schematizer.security.users import UserEntry, Users, read_users, render_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.schematizer.security.users import GrantEntry

_OWNER_ONLY = 0o600


def put_user(file: Path, name: str, password: str, roles: tuple[GrantEntry, ...]) -> bool:
    """Add a user, or give one another password ("" for none, or for the one there is) and roles.

    The file is made if there is none. Returns whether the user is new; raises
    UsageError for a name that cannot be.
    """
    found = False

    def change(users: Users) -> Users:
        nonlocal found
        found = name in users.users
        before = users.users.get(name, UserEntry())
        kept = hash_password(password) if password else before.password
        entry = before.model_copy(update={"password": kept, "roles": roles or before.roles})
        return _with(users, {**users.users, name: entry})

    _edit(file, change, make=True)
    return not found


def put_token(file: Path, name: str, token_name: str) -> str:
    """Give a user a new token, in the place of one by that name, and return it: it is kept nowhere."""
    token = new_token()

    def change(users: Users) -> Users:
        entry = _known(users, name, file)
        kept = entry.model_copy(update={"tokens": {**entry.tokens, token_name: hash_token(token)}})
        return _with(users, {**users.users, name: kept})

    _edit(file, change)
    return token


def remove_user(file: Path, name: str, token_name: str = "") -> None:
    """Take a user away, or only one of the user's tokens. Raises UsageError for what is not there."""

    def change(users: Users) -> Users:
        entry = _known(users, name, file)
        if not token_name:
            return _with(users, {each: kept for each, kept in users.users.items() if each != name})
        if token_name not in entry.tokens:
            message = f"{name!r} has no token {token_name!r}"
            raise UsageError(message, f"type: penstock schematizer user list --users {shell_word(file)}")
        tokens = {each: kept for each, kept in entry.tokens.items() if each != token_name}
        return _with(users, {**users.users, name: entry.model_copy(update={"tokens": tokens})})

    _edit(file, change)


def _known(users: Users, name: str, file: Path) -> UserEntry:
    if name not in users.users:
        message = f"there is no user {name!r} in {file}"
        raise UsageError(message, f"type: penstock schematizer user list --users {shell_word(file)}")
    return users.users[name]


def _with(users: Users, entries: dict[str, UserEntry]) -> Users:
    """Return `users` with other entries, checked as those of a file are."""
    try:
        return Users.model_validate({"anonymous": users.anonymous, "users": entries})
    except ValueError:
        message = "the name of a user or a token cannot be that"
        raise UsageError(message, "use 1 to 255 printable characters without spaces and colons") from None


def _edit(file: Path, change: Callable[[Users], Users], *, make: bool = False) -> None:
    with _alone(file):
        users = Users() if make and not file.exists() else read_users(file)
        text = render_users(change(users))
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        # A file that others may read tells them who there is, and gives them time to guess.
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY), "w") as written:  # noqa: PTH123 - a descriptor
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        if file.exists():
            unfinished.chmod(file.stat().st_mode & 0o777)
        unfinished.replace(file)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keep other editors out: the directory is what is locked, because the file is replaced."""
    try:
        directory = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        message = f"the users file {file} cannot be written: {error.strerror}"
        raise UsageError(message, "choose another place for --users") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    except OSError as error:
        message = f"the users file {file} cannot be written: {error.strerror}"
        raise UsageError(message, "choose another place for --users") from error
    finally:
        os.close(directory)
