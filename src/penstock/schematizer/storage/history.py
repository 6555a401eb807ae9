"""Who changed what, when: rows that are written in the transaction of the change itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import Change, Source, Thing

if TYPE_CHECKING:
    from penstock.schematizer.storage.database import UnitOfWork

FieldValue: TypeAlias = "str | bool | int | None"


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """What a change is about: what is "" does not matter to it. `entity` is what the other names do not name."""

    kind: Thing
    namespace: str = ""
    table_schema: str = ""
    table_name: str = ""
    element: str = ""
    note_id: int | None = None
    entity: str = ""

    @classmethod
    def of_source(cls, source: Source, element: str = "") -> HistoryPlace:
        """Return the place of a source, or of one of its elements."""
        kind = Thing.ELEMENT if element else Thing.SOURCE
        return cls(kind, source.namespace.name, source.table_schema, source.table_name, element)


def set_field(work: UnitOfWork, place: HistoryPlace, thing: object, field: str, value: FieldValue) -> bool:
    """Set a field of `thing` and write that down; False, and nothing is done, if it has the value already."""
    before = getattr(thing, field)
    if before == value:
        return False
    setattr(thing, field, value)
    add_change(work, place, field, (before, value))
    return True


def add_change(work: UnitOfWork, place: HistoryPlace, field: str, values: tuple[FieldValue, FieldValue]) -> None:
    """Write down that `field` went from the first of `values` to the second."""
    before, after = (_text(value) for value in values)
    work.session.add(
        Change(
            at_ms=now_ms(),
            author=work.author,
            kind=place.kind,
            namespace=place.namespace,
            table_schema=place.table_schema,
            table_name=place.table_name,
            element=place.element,
            note_id=place.note_id,
            entity=place.entity,
            field=field,
            before=before,
            after=after,
        )
    )


def _text(value: FieldValue) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            return value
