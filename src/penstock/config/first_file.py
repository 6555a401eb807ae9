"""The text of a pipeline's first file, from what somebody answered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

SourceKind: TypeAlias = Literal["mysql", "postgres"]
PORTS = {"mysql": 3306, "postgres": 5432}

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\*?")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""What YAML would not take for text."""


@dataclass(frozen=True, slots=True)
class Login:
    """A server, and how we log in: the password is in the environment variable `password_env`."""

    host: str
    port: int
    user: str
    password_env: str
    database: str = ""


@dataclass(frozen=True, slots=True)
class FirstFile:
    """What a first file says. Targets are a DuckDB file, a database of PostgreSQL, or both."""

    pipeline: str
    kind: SourceKind
    source: Login
    tables: Sequence[str]
    duckdb_path: str | None
    postgres: Login | None


def render_first_file(answers: FirstFile) -> str:
    """Return the file's text, with a line on what else it may say."""
    # A source's name has no hyphens, and neither name more than 48 characters.
    source = f"{answers.pipeline[:40].replace('-', '_')}db"
    tables = ", ".join(_text(table) for table in answers.tables)
    lines = [
        "# A pipeline of Penstock: docs/config.md lists every key.",
        f"pipeline: {_text(answers.pipeline)}",
        f"home: {_text(f'{answers.pipeline}-home')}   # what it keeps: see docs/deploy.md",
        "sources:",
        f"  - name: {_text(source)}",
        f"    kind: {answers.kind}",
        *_login(answers.source),
        f'    tables: [{tables}]   # also: [shop.*, "!shop.log_*"]',
        "sinks:",
    ]
    sinks = []
    if answers.duckdb_path is not None:
        sinks.append("duckdb")
        lines += ["  - name: duckdb", "    kind: duckdb", f"    path: {_text(answers.duckdb_path)}"]
    if answers.postgres is not None:
        sinks.append("postgres")
        lines += ["  - name: postgres", "    kind: postgres", *_login(answers.postgres)]
    lines.append("links:")
    lines += [f"  - {{from: {_text(source)}, to: {sink}}}" for sink in sinks]
    return "\n".join(lines) + "\n"


def _login(login: Login) -> list[str]:
    lines = [f"    host: {_text(login.host)}", f"    port: {login.port}"]
    if login.database:
        lines.append(f"    database: {_text(login.database)}")
    return [*lines, f"    user: {_text(login.user)}", f"    password_env: {_text(login.password_env)}"]


def _text(text: str) -> str:
    """Write text so that YAML reads it as that."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=1 << 20)).strip()
