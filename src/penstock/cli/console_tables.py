"""Tables on a terminal of other people's text: nothing in it is taken for markup, or for a terminal's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text


def print_rows(console: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with headings."""
    from rich.table import Table  # noqa: PLC0415 - those who want JSON need not wait for it

    table = Table(title=shown(title), title_justify="left", title_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(shown, row))
    console.print(table)


def print_facts(console: Console, title: str, facts: Mapping[str, str]) -> None:
    """Print names and values below each other."""
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(title=shown(title), title_justify="left", title_style="bold", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, shown(value))
    console.print(table)


def shown(text: str) -> Text:
    """Return text as it may be printed, see `printable`: here already, as Rich leaves out some of what that shows."""
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text(printable(text), overflow="fold")
