"""Commands in messages: whoever writes one does not know the pipeline's file, and whoever shows it does."""

from __future__ import annotations

import re
import shlex
from typing import Final

_COMMAND: Final = re.compile(r"\b(penstock (?:[a-z]+ )+)FILE\b( TABLE\b)?")


def has_command(text: str) -> bool:
    """Whether there is a command in `text` that takes the pipeline's file."""
    return _COMMAND.search(text) is not None


def shell_word(name: object) -> str:
    """Write a table, a file or what else has a name of its own into a command: a shell reads one word, and no code."""
    quoted = shlex.quote(str(name))
    # A name may hold the words of a command, which `name_file` is not to write into.
    return quoted.replace("FILE", "FI''LE") if has_command(quoted) else quoted


def name_file(text: str, file: str, table: str = "TABLE", source: str = "") -> str:
    """Write into the commands of `text` which file, and which table, they are for, as a shell reads it.

    With `source` those for the table name it, unless they name a link, which says as much.
    """
    if source:
        named_table = re.escape(shell_word(table))
        mine = (
            rf"\b(penstock (?:snapshot|table) FILE (?:TABLE|{named_table}))(?![\w.@%+=:/'-])"
            r"(?![^;,]* --(?:link|source) )"
        )
        text = re.sub(mine, lambda found: f"{found[1]} --source {shell_word(source)}", text)

    def named(found: re.Match[str]) -> str:
        return found[1] + shell_word(file) + (f" {shell_word(table)}" if found[2] else "")

    return _COMMAND.sub(named, text)
