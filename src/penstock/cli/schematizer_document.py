"""`penstock schematizer document`: say what tables and columns mean and who answers for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import open_console
from penstock.cli.console_tables import print_rows, shown
from penstock.cli.documentation_file import ColumnDocs, TableDocs, read_documentation
from penstock.cli.documentation_plan import Change, find_missing, plan_table
from penstock.cli.option_groups import grouped
from penstock.cli.registry_api import RegistryApi, find_source
from penstock.cli.registry_options import RegistryOptions  # noqa: TC001 - Typer reads annotations
from penstock.cli.schematizer_show import AsJson  # noqa: TC001 - Typer reads annotations
from penstock.core.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AUTHOR_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What is documented."""

    table: Annotated[str, typer.Argument(metavar="DATABASE.TABLE", help="The table.")] = ""
    namespace: Annotated[str | None, typer.Option(help="Where to look; needed where several have the table.")] = None
    column: Annotated[str | None, typer.Option(help="This column of it.")] = None
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.yml", help="Many tables and columns, as the file says.")
    ] = None
    missing: Annotated[bool, typer.Option("--missing", help="Only list what has no docs or no owner.")] = False


@dataclass(frozen=True, slots=True)
class AnnotationOptions:
    """What is said of it."""

    doc: Annotated[str | None, typer.Option(help='What it means; "" removes it.')] = None
    owner: Annotated[str | None, typer.Option(help='Who answers for it, an e-mail address; "" for nobody.')] = None
    category: Annotated[str | None, typer.Option(help='What it belongs to; "" removes it.')] = None
    pii: Annotated[bool | None, typer.Option("--pii/--no-pii", help="Whether the column holds personal data.")] = None


@grouped
def document(
    registry: RegistryOptions,
    what: TableOptions,
    said: AnnotationOptions,
    *,
    author: Annotated[str, typer.Option(help="Who says so, for the history, where nobody signs in.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Document a table or a column, or many of them from a file, or list what lacks docs or an owner.

    What changes is printed, a line each. The same input again changes nothing.
    """
    _require_one_purpose(what, said)
    if len(author) > _AUTHOR_CHARACTERS_MAX or not author.isprintable():
        message = "the author is no name"
        raise UsageError(message, f"give up to {_AUTHOR_CHARACTERS_MAX} printable characters")
    wanted = read_documentation(what.file) if what.file is not None else None
    with registry.open_client() as client:
        api = RegistryApi(client, author.strip())
        if what.missing:
            _tell_missing(find_missing(api, what.namespace), as_json=as_json)
        elif wanted is not None:
            _apply(api, _plan_file(api, wanted), dry_run=dry_run, as_json=as_json)
        else:
            source = find_source(api, what.table, what.namespace)
            _apply(api, plan_table(api, source, _docs(what.column, said)), dry_run=dry_run, as_json=as_json)


def _require_one_purpose(what: TableOptions, said: AnnotationOptions) -> None:
    says = any(each is not None for each in (said.doc, said.owner, said.category, said.pii))
    purposes = (bool(what.table), what.file is not None, what.missing)
    if sum(purposes) != 1:
        message = "it is not clear what to document"
        raise UsageError(message, "name a table, or give a file with --from, or ask for what is --missing")
    if what.table and not says:
        message = f"nothing is said of {what.table}"
        raise UsageError(message, "add --doc, --owner, --category, or --column with --doc or --pii")
    if not what.table and (says or what.column is not None):
        message = "--column, --doc, --owner, --category and --pii are about one table, and none is named"
        raise UsageError(message, "name the table, like shop.orders")
    if what.column is None and said.pii is not None:
        message = "--pii and --no-pii are about a column"
        raise UsageError(message, "say which one with --column")
    if what.column is not None and (said.owner is not None or said.category is not None):
        message = "--owner and --category are about a whole table"
        raise UsageError(message, "leave --column out")


def _docs(column: str | None, said: AnnotationOptions) -> TableDocs:
    if column is None:
        return TableDocs(owner=said.owner, category=said.category, doc=said.doc)
    return TableDocs(columns={column: ColumnDocs(doc=said.doc, pii=said.pii)})


def _plan_file(api: RegistryApi, wanted: Mapping[str, Mapping[str, TableDocs]]) -> Sequence[Change]:
    """Find out what all of a file changes, before anything is. Raises PenstockError with every name that is wrong."""
    changes: list[Change] = []
    mistakes: list[str] = []
    for namespace, tables in wanted.items():
        for table, docs in tables.items():
            try:
                changes += plan_table(api, find_source(api, table, namespace), docs)
            except (UsageError, PenstockError) as error:
                if error.retryable:
                    raise
                mistakes.append(f"  {namespace}: {table}: {error.message}")
    if mistakes:
        listed = "\n".join(mistakes)
        message = f"nothing was changed, because the file has {len(mistakes)} mistake(s):\n{listed}"
        raise PenstockError(message, "correct these names, or register the tables first")
    return changes


def _apply(api: RegistryApi, changes: Sequence[Change], *, dry_run: bool, as_json: bool) -> None:
    console = open_console(stderr=as_json)
    for change in changes:
        if not dry_run:
            api.put(*change.names, body=change.body)
        for line in change.lines:
            console.print(shown(f"{'would change' if dry_run else 'changed'} {line}"), soft_wrap=True)
    if not changes:
        console.print(shown("nothing changes: the registry says so already"))
    if as_json:
        told = [{"path": "/".join(change.names), "body": change.body} for change in changes]
        typer.echo(json.dumps({"changed": not dry_run, "changes": told}, indent=2, ensure_ascii=False))


def _tell_missing(missing: Sequence[Mapping[str, str]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(missing, indent=2, ensure_ascii=False))
    elif missing:
        rows = [(each["namespace"], each["table"], each["column"], each["lacks"]) for each in missing]
        print_rows(open_console(), "Not documented", ("namespace", "table", "column", "lacks"), rows)
    else:
        open_console().print("everything has docs, and every table an owner")
