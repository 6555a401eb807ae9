"""What the Schematizer knows of a topic: whose it is, which topics its table has, and its newest schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.adapters.registry.client import HttpRegistry
    from penstock.core.tables import TableSchema

_PAGE: Final = "1000"
_NAME_ONE: Final = "name a topic that a capture of Penstock writes for a table"


@dataclass(frozen=True, slots=True)
class TopicOfTable:
    """A topic as the registry has it.

    `source` is the name of the source, `schema` the newest one of its table in it; `topics` are all of the table,
    oldest first.
    """

    source: str
    schema: TableSchema
    topics: tuple[str, ...]


def read_topic(registry: HttpRegistry, topic: str) -> TopicOfTable:
    """Ask the registry for a topic. Raises UsageError for one of no table, or that it does not know."""
    found = registry.read("topics", topic)
    if found is None:
        message = f"the schematizer knows no topic {topic}"
        raise UsageError(message, f"{_NAME_ONE}; penstock schematizer show lists those that it knows")
    schemas = list(_items(registry, "topics", topic, "schemas", kind="value"))
    source, schema = str(found["namespace"]), _newest(topic, schemas)
    of_table = {"table_schema": schema.table.schema, "table_name": schema.table.name}
    topics = [str(each["name"]) for each in _items(registry, "topics", namespace=source, **of_table)]
    return TopicOfTable(source, schema, tuple(topics))


def _newest(topic: str, schemas: Sequence[Mapping[str, object]]) -> TableSchema:
    message = f"the schematizer has no schema of a table for topic {topic}"
    if not schemas:
        raise UsageError(message, _NAME_ONE)
    try:
        return table_schema(str(schemas[-1]["schema"]))
    except PenstockError as error:
        raise UsageError(message, _NAME_ONE) from error


def _items(registry: HttpRegistry, *names: str, **asked: str) -> Iterator[Mapping[str, object]]:
    """Read a list to its end, page by page."""
    after = ""
    while True:
        page = registry.read(*names, **asked, limit=_PAGE, after=after)
        items = None if page is None else page.get("items")
        if page is None or not isinstance(items, list):
            message = f"the schematizer does not list {'/'.join(names)}"
            raise PenstockError(message, "check that the URL is that of a schematizer")
        yield from cast("list[Mapping[str, object]]", items)
        after = str(page.get("next", ""))
        if not after:
            return
