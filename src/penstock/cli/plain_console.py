"""A console for other people's text: nothing in it is taken for markup, for an emoji, or for a terminal's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class PlainConsole(Console):
    """Rich's console, which prints `printable` text alone: rows, names and errors have what others wrote."""

    def __init__(self, *, stderr: bool, width: int | None) -> None:
        """Open it; None is the terminal's width."""
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    # Rich's own signature takes anything, hence Any.
    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401
        """See rich. Rich leaves some of the characters out that `printable` shows as U+FFFD, which comes first."""
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See rich. What tables and other objects hold comes by here; Rich's own codes are no text."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=printable(each.text))
