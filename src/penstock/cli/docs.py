"""`penstock docs`: the documentation of this very release, which the package brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.core.errors import UsageError

app = typer.Typer()

_PAGES = Path(__file__).parents[1] / "docs"


@app.command()
def docs(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A page, as `run` or `config`.")] = None,
) -> None:
    """Print a page of the documentation; without NAME, which pages there are, and where their files lie.

    A page is Markdown. What messages call docs/run.md is `penstock docs run`.
    """
    pages = {page.stem: page for page in sorted(_PAGES.glob("*.md"))}
    if name is None:
        width = max(map(len, pages))
        typer.echo(f"the files are in {_PAGES.resolve()}\n")
        for each, page in pages.items():
            typer.echo(f"{each:{width}}  {_title(page)}")
        return
    wanted = Path(name).name.removesuffix(".md")
    found = next((page for each, page in pages.items() if each.casefold() == wanted.casefold()), None)
    if found is None:
        message = f"there is no page {name}"
        raise UsageError(message, "see which there are: penstock docs")
    typer.echo(found.read_text("utf-8"))


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
