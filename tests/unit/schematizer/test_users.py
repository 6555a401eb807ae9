"""The file that says who may do what, and the command that edits it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import UsageError
from penstock.schematizer.security.access import Grant, InNamespace, InSubject, Role, User
from penstock.schematizer.security.credentials import hash_password, is_password, is_password_hash
from penstock.schematizer.security.users import GrantEntry, read_users
from penstock.schematizer.security.users_edit import put_token, put_user, remove_user

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "geheim-5f2c"
USER = [sys.executable, "-m", "penstock.cli.main", "schematizer", "user"]


def command(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `penstock schematizer user` on a file in a folder."""
    file = folder / "users.yaml"
    return subprocess.run(
        [*USER, *arguments, "--users", str(file)], input=given, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_commands_edit_a_file_that_holds_no_secret(tmp_path: Path) -> None:
    added = command(tmp_path, "add", "ada", "--role", "write", "--namespace", "shop*", given=f"{SECRET}\n")
    token = command(tmp_path, "token", "ada", "--name", "laptop").stdout.strip()
    listed = command(tmp_path, "list")

    users = read_users(tmp_path / "users.yaml")
    assert users.user("ada").grants == (Grant(Role.WRITE, ("shop*",)),)
    kept = users.users["ada"].password or ""
    assert is_password(SECRET, kept)
    # What OWASP's Password Storage Cheat Sheet asks for.
    assert kept.startswith("scrypt$32768$8$3$")
    assert token.startswith("pst_")
    assert "write in shop*" in listed.stdout
    assert "laptop" in listed.stdout
    for text in (added.stdout + added.stderr, listed.stdout, (tmp_path / "users.yaml").read_text()):
        assert SECRET not in text
        assert token not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["remove", "nobody"], "cannot be read"),
        (["add", "a:b", "--role", "read", "--password-env", "-"], "cannot be that"),
        (["add", "ada", "--role", "king", "--password-env", "-"], "read, write, admin"),
        (["add", "ada", "--namespace", "a", "--password-env", "-"], "no --role"),
        (["add", "ada", "--role", "read"], "is empty"),
        (
            ["add", "ada", "--role", "read", "--users", "/proc/none/users.yaml", "--password-env", "-"],
            "cannot be written",
        ),
    ],
)
def test_a_command_that_cannot_be_done_says_why(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = () if "--users" in arguments else ("--users", str(tmp_path / "users.yaml"))

    ended = CliRunner().invoke(app, ["schematizer", "user", *arguments, *file])

    assert ended.exit_code == 2
    assert message in ended.stderr


@pytest.mark.parametrize(
    "text",
    [
        f"users: {{ada: {{password: {SECRET}}}}}",
        f"users: {{ada: {{tokens: {{a: {SECRET}}}}}}}",
        f"users: {{ada: {{secret: {SECRET}}}}}",
        f"users: {{ada: {SECRET}}}",
        f"users: [{SECRET}",
        f"password: {SECRET}",
        f"anonymous: {SECRET}",
        f"users: {{ada: {{roles: [{{role: {SECRET}}}]}}}}",
        "users: {ada: {roles: [{role: read, namespaces: []}]}}",
        SECRET,
    ],
)
def test_a_wrong_file_is_told_without_what_it_says(tmp_path: Path, text: str) -> None:
    (tmp_path / "users.yaml").write_text(text)

    with pytest.raises(UsageError) as caught:
        read_users(tmp_path / "users.yaml")

    assert SECRET not in str(caught.value)


def test_editing_keeps_what_is_not_said(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    put_user(file, "ada", SECRET, (GrantEntry(role=Role.ADMIN),))
    put_token(file, "ada", "one")
    put_token(file, "ada", "two")
    put_user(file, "bob", "", (GrantEntry(role=Role.READ),))

    assert put_user(file, "ada", "", (GrantEntry(role=Role.READ),)) is False
    remove_user(file, "ada", "one")
    remove_user(file, "bob")

    users = read_users(file)
    assert list(users.users) == ["ada"]
    assert list(users.users["ada"].tokens) == ["two"]
    assert is_password(SECRET, users.users["ada"].password or "")
    assert users.user("ada").grants == (Grant(Role.READ),)
    with pytest.raises(UsageError, match="no token 'one'"):
        remove_user(file, "ada", "one")


def test_hashes_of_one_password_differ_and_foreign_ones_are_none() -> None:
    one, other = hash_password("ü" * 300), hash_password("ü" * 300)

    assert one != other
    assert is_password("ü" * 300, one)
    assert not is_password("ü" * 299, one)
    for text in (
        "",
        "scrypt",
        "scrypt$a$8$1$YQ==$YQ==",
        "scrypt$32768$8$1$YQ==$YQ==",
        "scrypt$1099511627776$8$1$YQ==$",
    ):
        assert not is_password_hash(text)


@given(
    role=st.sampled_from(Role),
    wanted=st.sampled_from(Role),
    patterns=st.lists(st.sampled_from(["shop*", "other", "*"]), max_size=2),
    name=st.sampled_from(["shopdb", "shop", "other", "others", "Shop"]),
)
def test_a_grant_reaches_no_further_than_it_says(role: Role, wanted: Role, patterns: list[str], name: str) -> None:
    user = User("ada", (Grant(role, tuple(patterns)),))

    matches = any({"shop*": name.startswith("shop"), "other": name == "other", "*": True}[each] for each in patterns)
    assert user.may_in(wanted, InNamespace(name)) is (role >= wanted and (matches or not patterns))
    assert user.may_in(wanted, InSubject(name)) is (role >= wanted and not patterns)
    assert user.may_everywhere(wanted) is (role >= wanted and not patterns)
