"""`penstock schematizer show`: what the registry knows, for people or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import format_time, open_console
from penstock.cli.console_tables import print_facts, print_rows, shown
from penstock.cli.option_groups import grouped
from penstock.cli.registry_api import RegistryApi, find_source, source_names
from penstock.cli.registry_options import RegistryOptions  # noqa: TC001 - Typer reads annotations
from penstock.core.errors import UsageError
from penstock.schematizer.api.answers import NamespaceAnswer, SchemaAnswer, SourceAnswer, TopicAnswer, TopicSchemaAnswer
from penstock.schematizer.api.documentation_answers import CoverageAnswer, ElementAnswer, SchemaElementAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

_NOBODY = "nobody yet"
_NONE = "none yet"
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with the names of the registry's API.")]


@grouped
def show(
    registry: RegistryOptions,
    *,
    topic: Annotated[str, typer.Argument(help="Show this topic's schemas; without it, all topics.")] = "",
    namespace: Annotated[
        str | None, typer.Option(help="Show its coverage and tables; with --table, look for it there.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="DATABASE.TABLE", help="Show owner, docs, columns and topics of a table.")
    ] = None,
    schema: Annotated[int | None, typer.Option(metavar="ID", min=1, help="Show the schema with this id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all topics with tables, owners and keys, or one topic, one table, one namespace, one schema."""
    if sum((bool(topic), namespace is not None or table is not None, schema is not None)) > 1:
        message = "a topic, a table or namespace, and a schema cannot be shown at once"
        raise UsageError(message, "ask for one of them")
    console = open_console()
    with registry.open_client() as client:
        api = RegistryApi(client)
        if schema is not None:
            told: object = _show_schema(api, console, schema, quiet=as_json)
        elif table is not None:
            told = _show_table(api, console, (table, namespace), quiet=as_json)
        elif namespace is not None:
            told = _show_namespace(api, console, namespace, quiet=as_json)
        elif topic:
            told = _show_topic(api, console, topic, quiet=as_json)
        else:
            told = _show_topics(api, console, quiet=as_json)
    if as_json:
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))


def _show_topics(api: RegistryApi, console: Console, *, quiet: bool) -> object:
    found = list(api.items("topics"))
    if not quiet:
        topics = [TopicAnswer.model_validate(each) for each in found]
        rows = [
            (each.name, each.table, each.owner_email or _NOBODY, ", ".join(each.key_fields) or "-", each.follows)
            for each in topics
        ]
        print_rows(console, "Topics", ("topic", "table", "owner", "key", "follows"), rows)
    return found


def _show_topic(api: RegistryApi, console: Console, name: str, *, quiet: bool) -> object:
    found, schemas = api.get("topics", name), list(api.items("topics", name, "schemas"))
    if not quiet:
        topic = TopicAnswer.model_validate(found)
        facts = {
            "table": f"{topic.table} of {topic.namespace}",
            "owner": topic.owner_email or _NOBODY,
            "key": ", ".join(topic.key_fields) or "none: the table has no primary key",
            "personal data": "yes" if topic.contains_pii else "no",
            "follows": topic.follows or "nothing: it is the table's first topic",
            "opened because": "\n".join(topic.opened_because) or "the table is new",
        }
        print_facts(console, topic.name, facts)
        for each in map(TopicSchemaAnswer.model_validate, schemas):
            console.print(shown(f"\n{each.kind} version {each.version}, schema {each.id} ({each.status})"))
            _print_text(console, each.schema_text)
    return {**found, "schemas": schemas}


def _show_table(api: RegistryApi, console: Console, wanted: tuple[str, str | None], *, quiet: bool) -> object:
    found = find_source(api, *wanted)
    names = source_names(found)
    place = dict(zip(("namespace", "table_schema", "table_name"), names[1:], strict=True))
    elements, topics = list(api.items(*names, "elements")), list(api.items("topics", **place))
    if not quiet:
        source = SourceAnswer.model_validate(found)
        facts = {
            "namespace": source.namespace,
            "owner": source.owner_email or _NOBODY,
            "category": source.category or _NONE,
            "docs": source.doc or _NONE,
            "since": format_time(source.created_at_ms),
            "topics": "\n".join(str(each["name"]) for each in topics),
        }
        print_facts(console, source.table, facts)
        columns = [ElementAnswer.model_validate(each) for each in elements]
        rows = [
            (
                each.name if each.is_present else f"{each.name} (dropped)",
                each.type,
                "key" if each.is_key else "",
                _said(each.contains_pii),
                each.doc or _NONE,
            )
            for each in columns
        ]
        print_rows(console, "Columns", ("column", "type", "key", "personal data", "docs"), rows)
    return {**found, "elements": elements, "topics": topics}


def _show_namespace(api: RegistryApi, console: Console, name: str, *, quiet: bool) -> object:
    found, covered = api.get("namespaces", name), api.get("namespaces", name, "coverage")
    sources = list(api.items("sources", namespace=name))
    if not quiet:
        namespace, coverage = NamespaceAnswer.model_validate(found), CoverageAnswer.model_validate(covered)
        documented = f"{coverage.sources_with_doc} of {coverage.sources} tables"
        described = f"{coverage.elements_with_doc} of {coverage.elements} columns"
        demanded = [what for what in ("owner", "docs") if getattr(namespace, f"requires_{what}")]
        facts = {
            "docs": f"{coverage.documented_percent:g} %: {documented}, {described}",
            "owners": f"{coverage.owned_percent:g} %: {coverage.sources_with_owner} of {coverage.sources} tables",
            "demanded": ", ".join(demanded) or "nothing",
        }
        print_facts(console, namespace.name, facts)
        _print_sources(console, [SourceAnswer.model_validate(each) for each in sources])
    return {**found, "coverage": covered, "sources": sources}


def _show_schema(api: RegistryApi, console: Console, schema_id: int, *, quiet: bool) -> object:
    found = api.get("schemas", str(schema_id))
    elements = list(api.items("schemas", str(schema_id), "elements"))
    if not quiet:
        schema = SchemaAnswer.model_validate(found)
        used = [f"{each.kind} version {each.version} of {each.subject} ({each.status})" for each in schema.used_by]
        facts = {"used by": "\n".join(used) or "nobody", "since": format_time(schema.created_at_ms)}
        print_facts(console, f"schema {schema.id}", facts)
        fields = [SchemaElementAnswer.model_validate(each) for each in elements]
        rows = [
            (each.path, each.type, "key" if each.is_key else "", _said(each.contains_pii), each.doc or _NONE)
            for each in fields
        ]
        print_rows(console, "Fields", ("field", "type", "key", "personal data", "docs"), rows)
        _print_text(console, schema.schema_text)
    return {**found, "elements": elements}


def _print_sources(console: Console, sources: Sequence[SourceAnswer]) -> None:
    rows = [(each.table, each.owner_email or _NOBODY, each.category or _NONE, each.doc or _NONE) for each in sources]
    print_rows(console, "Tables", ("table", "owner", "category", "docs"), rows)


def _print_text(console: Console, text: str) -> None:
    """Print a schema's text, indented if it is JSON."""
    try:
        indented = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        indented = text
    console.print(shown(indented), soft_wrap=True)


def _said(contains_pii: bool | None) -> str:  # noqa: FBT001 - one value is shown
    return {None: "not said", True: "yes", False: "no"}[contains_pii]
