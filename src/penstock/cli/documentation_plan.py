"""What has to be asked of a registry so that it says what is wanted, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.registry_api import RegistryApi, source_names
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.cli.documentation_file import ColumnDocs, TableDocs
    from penstock.cli.registry_api import Answer

_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True)
class Change:
    """One PUT: the names of its path, its body, and what it changes, a line each."""

    names: tuple[str, ...]
    body: Mapping[str, object]
    lines: tuple[str, ...]


def plan_table(api: RegistryApi, source: Answer, wanted: TableDocs) -> list[Change]:
    """Return what makes a source say what is wanted of it and its columns; empty if it does.

    Raises PenstockError for a column that it does not have.
    """
    names, table = source_names(source), f"{source['namespace']}: {source['table']}"
    fields = {"owner_email": wanted.owner, "category": wanted.category, "doc": wanted.doc}
    changes = list(_change(names, table, source, fields))
    if wanted.columns:
        elements = {str(each["name"]): each for each in api.items(*names, "elements")}
        unknown = [name for name in wanted.columns if name not in elements]
        if unknown:
            message = f"it has no column {', '.join(unknown)}"
            raise PenstockError(message, f"its columns are {', '.join(elements)}")
        for name, docs in wanted.columns.items():
            changes += _change((*names, "elements", name), f"{table}, column {name}", elements[name], _fields_of(docs))
    return changes


def find_missing(api: RegistryApi, namespace: str | None) -> list[Mapping[str, str]]:
    """List what lacks docs or an owner: `namespace`, `table`, `column` ("" for the table) and `lacks`.

    Columns that a table has no more are left out. Raises PenstockError for a namespace that there is not.
    """
    if namespace is not None:
        api.get("namespaces", namespace)
    within = {"namespace": namespace} if namespace is not None else {}
    return [each for source in api.items("sources", **within) for each in _missing_of(api, source)]


def _missing_of(api: RegistryApi, source: Answer) -> Iterator[Mapping[str, str]]:
    place = {"namespace": str(source["namespace"]), "table": str(source["table"])}
    lacks = [name for name, field in (("owner", "owner_email"), ("docs", "doc")) if not source[field]]
    if lacks:
        yield {**place, "column": "", "lacks": ", ".join(lacks)}
    for element in api.items(*source_names(source), "elements", documented="false"):
        if element["is_present"]:
            yield {**place, "column": str(element["name"]), "lacks": "docs"}


def _fields_of(docs: ColumnDocs) -> Mapping[str, object]:
    return {"doc": docs.doc, "contains_pii": docs.pii}


def _change(names: tuple[str, ...], what: str, now: Answer, wanted: Mapping[str, object]) -> Iterator[Change]:
    """Compare as the registry keeps it: without white space around a text."""
    stripped = {name: value.strip() if isinstance(value, str) else value for name, value in wanted.items()}
    body = {name: value for name, value in stripped.items() if value is not None and value != now.get(name)}
    if body:
        lines = [f"{what}: {name} from {_brief(now.get(name))} to {_brief(value)}" for name, value in body.items()]
        yield Change(names, body, tuple(lines))


def _brief(value: object) -> str:
    match value:
        case None | "":
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case _:
            text = " ".join(str(value).split())
            return f'"{text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"}"'
