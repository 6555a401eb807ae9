"""The file that says who may do what: YAML, with hashes of passwords and tokens and never one of them.

anonymous: read                     # without it, everybody signs in
users:
  ada:
    password: scrypt$32768$8$3$...
    tokens: {laptop: 9f86d081...}   # SHA-256 of the token, by its name
    roles:
      - role: admin                 # everywhere
  shop-pipeline:
    tokens: {kafka: 5e884898...}
    roles:
      - {role: write, namespaces: ["shop*"], subjects: [":.lab:*"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.schematizer.security.access import Grant, Role, User
from penstock.schematizer.security.credentials import is_password_hash

if TYPE_CHECKING:
    from pathlib import Path


def _parse_role(given: object) -> Role:
    try:
        return given if isinstance(given, Role) else Role[str(given).upper()]
    except KeyError:
        text = f"should be one of {', '.join(str(role) for role in Role)}"
        raise ValueError(text) from None


def _check_hash(kept: str) -> str:
    if not is_password_hash(kept):
        text = 'is not the hash of a password: let "penstock schematizer user add" write it'
        raise ValueError(text)
    return kept


RoleName = Annotated[Role, BeforeValidator(_parse_role), PlainSerializer(str)]
UserName = Annotated[str, Field(pattern=r"^[^\x00-\x20\x7f:]+$", max_length=255)]
PasswordHash = Annotated[str, AfterValidator(_check_hash)]
TokenHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Pattern = Annotated[str, Field(min_length=1, max_length=255)]


class _Part(BaseModel):
    # Mistakes are told without what was written there: it could be a password in the wrong place.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class GrantEntry(_Part):
    """A role of a user; everywhere unless it names namespaces or subjects."""

    role: RoleName
    namespaces: tuple[Pattern, ...] | None = Field(default=None, min_length=1)
    subjects: tuple[Pattern, ...] | None = Field(default=None, min_length=1)

    def grant(self) -> Grant:
        """Return it as it is asked."""
        return Grant(self.role, self.namespaces or (), self.subjects or ())


class UserEntry(_Part):
    """A user."""

    password: PasswordHash | None = None
    tokens: dict[UserName, TokenHash] = {}
    roles: tuple[GrantEntry, ...] = ()


class Users(_Part):
    """Everybody who may do anything; `anonymous` is the role of those who do not sign in."""

    anonymous: RoleName | None = None
    users: dict[UserName, UserEntry] = {}

    def user(self, name: str) -> User:
        """Return the user called `name`, who is there."""
        return User(name, tuple(role.grant() for role in self.users[name].roles))

    def unknown(self) -> User | None:
        """Return who does not sign in, None where everybody has to."""
        return None if self.anonymous is None else User("", (Grant(self.anonymous),))


def read_users(file: Path) -> Users:
    """Read a users file. Raises UsageError that says what is wrong with it."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        message = f"the users file {file} cannot be read: {reason}"
        hint = f"type: penstock schematizer user add NAME --users {shell_word(file)} --role admin"
        raise UsageError(message, hint) from error
    try:
        return Users.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f", line {mark.line + 1}" if mark else ""
        message = f"the users file {file} is not YAML{where}"
        # The parser's own error quotes the line.
        raise UsageError(message, "correct it, or write it anew with penstock schematizer user") from None
    except ValidationError as error:
        mistakes = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        message = f"the users file {file} is wrong: {mistakes}"
        raise UsageError(message, "correct it, or write it anew with penstock schematizer user") from None


def render_users(users: Users) -> str:
    """Return the text of a users file."""
    return yaml.safe_dump(users.model_dump(mode="json", exclude_defaults=True), sort_keys=False, allow_unicode=True)
