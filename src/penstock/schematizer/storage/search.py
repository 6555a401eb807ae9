"""What search finds: entries that are kept up with names and docs in the same transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.storage.models import SearchEntry
from penstock.schematizer.storage.words import normalise

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.schematizer.storage.history import HistoryPlace


def enter(session: Session, place: HistoryPlace, entity_id: int, name: str, doc: str) -> None:
    """Make something found by its name and doc, as they are now."""
    query = select(SearchEntry).where(SearchEntry.kind == place.kind, SearchEntry.entity_id == entity_id)
    entry = session.scalars(query).one_or_none()
    if entry is None:
        enter_new(session, place, entity_id, name, doc)
    else:
        entry.doc, entry.doc_words = doc, normalise(doc)


def enter_new(session: Session, place: HistoryPlace, entity_id: int, name: str, doc: str) -> None:
    """Make something found that was never entered before."""
    session.add(
        SearchEntry(
            kind=place.kind,
            entity_id=entity_id,
            namespace=place.namespace,
            table_schema=place.table_schema,
            table_name=place.table_name,
            name=name,
            doc=doc,
            name_words=normalise(name),
            doc_words=normalise(doc),
        )
    )
