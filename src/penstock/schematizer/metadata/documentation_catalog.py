"""What was changed, and what is found: queries of the /v1 API.

A search finds what has every word, in its name or its docs; names come before docs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, case, or_, select

from penstock.schematizer.api.documentation_answers import ChangeAnswer, ChangeList, FoundAnswer, FoundList
from penstock.schematizer.api.paging import read_page
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.models import Change, SearchEntry, Thing
from penstock.schematizer.storage.words import normalise

if TYPE_CHECKING:
    from sqlalchemy.orm import InstrumentedAttribute, Session
    from sqlalchemy.sql.elements import ColumnElement

    from penstock.schematizer.api.queries import HistoryQuery, SearchQuery

_KIND_ORDER = case({kind.value: number for number, kind in enumerate(Thing)}, value=SearchEntry.kind)


def read_history(session: Session, asked: HistoryQuery) -> ChangeList:
    """List changes, the newest first."""
    query = select(Change)
    for name in ("kind", "author", "namespace", "table_schema", "table_name", "element", "field", "note_id", "entity"):
        value = getattr(asked, name)
        if value is not None:
            query = query.where(getattr(Change, name) == value)
    if asked.since_ms is not None:
        query = query.where(Change.at_ms >= asked.since_ms)
    if asked.until_ms is not None:
        query = query.where(Change.at_ms < asked.until_ms)
    found, following = read_page(session, query, [Change.id], asked.window, descending=True)
    return ChangeList(items=[ChangeAnswer.of(change) for change in found], next=following)


def read_found(session: Session, asked: SearchQuery) -> FoundList:
    """List what has every word of the query: the same name first, then beginnings, other names, and docs."""
    wanted = normalise(asked.q)
    if not wanted:
        raise RefusedError(Code.INVALID_REQUEST, "there is no word in `q`", "send a word that a name or a doc has")
    name, doc = SearchEntry.name_words, SearchEntry.doc_words
    words = wanted.split()
    query = select(SearchEntry).where(*(or_(_has(name, word), _has(doc, word)) for word in words))
    if asked.kind is not None:
        query = query.where(SearchEntry.kind == asked.kind)
    if asked.namespace is not None:
        query = query.where(SearchEntry.namespace == asked.namespace)
    # A table is called orders by those who look for shop.orders.
    rank = case(
        (or_(name == wanted, name.endswith(f".{wanted}", autoescape=True)), 0),
        (or_(name.startswith(wanted, autoescape=True), _has(name, f".{wanted}")), 1),
        (and_(*(_has(name, word) for word in words)), 2),
        else_=3,
    )
    found, following = read_page(session, query, [rank, _KIND_ORDER, SearchEntry.id], asked.window)
    return FoundList(items=[FoundAnswer.of(entry) for entry in found], next=following)


def _has(words: InstrumentedAttribute[str], part: str) -> ColumnElement[bool]:
    return words.contains(part, autoescape=True)
