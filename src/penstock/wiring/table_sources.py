"""Which source a table is meant of: several may have one of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from penstock.config.specs import PipelineSpec


def carriers(spec: PipelineSpec, table: str) -> Sequence[str]:
    """The sources of the file that carry `table`."""
    return [source.name for source in spec.sources if "." in table and source.patterns.matches(TableId.parse(table))]


def sources_with(spec: PipelineSpec, table: str) -> Sequence[str]:
    """As `carriers`. Raises UsageError for none."""
    names = carriers(spec, table)
    if not names:
        message = f"no source of the file carries {table}"
        raise UsageError(message, "give each table as schema.name, as `tables` of its source matches it")
    return names


def source_of(spec: PipelineSpec, table: str, source_name: str = "", link_name: str = "") -> str:
    """The source that carries `table`: `source_name`, or that of the link; if neither is given, the only one.

    Raises UsageError for none, for one that does not carry it, and for several.
    """
    links = {link.name: link.source for link in spec.links if link.source in {each.name for each in spec.sources}}
    linked = links.get(link_name, "")
    if source_name and linked and linked != source_name:
        message = f"{link_name} loads tables of {linked}, and not of {source_name}"
        raise UsageError(message, "leave --source or --link out")
    return only_source(table, sources_with(spec, table), source_name or linked)


def only_source(table: str, names: Collection[str], source_name: str) -> str:
    """`source_name`, or the only one of `names`, which have `table`. Raises UsageError for one that is not there."""
    named = source_name or next(iter(names))
    if named not in names:
        message = f"{table} is a table of {', '.join(names)}, and not of {source_name}"
        raise UsageError(message, f"name the source that is meant: --source {' or '.join(names)}")
    if not source_name and len(names) > 1:
        message = f"{table} is a table of {', '.join(names)}"
        raise UsageError(message, f"say which is meant: --source {' or '.join(names)}")
    return named


def source_at(spec: PipelineSpec, link_name: str) -> str:
    """The source of a link of the file."""
    return next(each.source for each in spec.links if each.name == link_name)


def in_command(spec: PipelineSpec, source_name: str, table: str) -> str:
    """How a command names `table` of a source: with the source's name where it has to."""
    typed = shell_word(table)
    return f"{typed} --source {shell_word(source_name)}" if len(carriers(spec, table)) > 1 else typed


def sources_to_name(spec: PipelineSpec, tables: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """The sources that commands have to name, by link and table: of `tables` those that several sources have."""
    sources = {each.name: each.name for each in spec.sources}
    sources |= {link.name: sources[link.source] for link in spec.links if link.source in sources}
    found = {(link, table) for link, table in tables if link in sources}
    shared = {table for table in {table for _, table in found} if len(carriers(spec, table)) > 1}
    return {(link, table): sources[link] for link, table in found if table in shared}
