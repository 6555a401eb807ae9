"""Notes: what people remark on schemas and on their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.api.documentation_answers import NoteAnswer, NoteList
from penstock.schematizer.api.paging import read_page
from penstock.schematizer.ids import is_storable
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.elements import plan_elements
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.history import HistoryPlace, add_change, set_field
from penstock.schematizer.storage.models import Note, Thing
from penstock.schematizer.storage.search import enter
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.schematizer.api.queries import NoteQuery
    from penstock.schematizer.storage.database import UnitOfWork


def add_note(work: UnitOfWork, schema_id: int, element: str, text: str) -> NoteAnswer:
    """Add a note on a schema, or on its element with this path. Raises RefusedError where there is no such thing."""
    paths = {each.path for each in plan_elements(schema_by_id(work.session, schema_id), is_key=False)}
    if element and element not in paths:
        message = f"schema {schema_id} has no element {element[:80]!r}"
        raise RefusedError(Code.UNKNOWN_ELEMENT, message, f"see GET /v1/schemas/{schema_id}/elements")
    now = now_ms()
    note = Note(
        schema_id=schema_id,
        element=element,
        text=_checked(text),
        author=work.author,
        created_at_ms=now,
        updated_at_ms=now,
    )
    work.session.add(note)
    work.session.flush()
    add_change(work, _place(note), "text", ("", note.text))
    enter(work.session, _place(note), note.id, "", note.text)
    return NoteAnswer.of(note)


def change_note(work: UnitOfWork, note_id: int, text: str) -> NoteAnswer:
    """Give a note another text. Its author stays the first one; history tells who changed it."""
    note = _note(work.session, note_id, lock=True)
    if set_field(work, _place(note), note, "text", _checked(text)):
        note.updated_at_ms = now_ms()
        enter(work.session, _place(note), note.id, "", note.text)
    return NoteAnswer.of(note)


def read_note(session: Session, note_id: int) -> NoteAnswer:
    """Return a note; RefusedError if there is none."""
    return NoteAnswer.of(_note(session, note_id))


def read_notes(session: Session, asked: NoteQuery) -> NoteList:
    """List notes, the oldest first."""
    query = select(Note)
    for name in ("schema_id", "element", "author"):
        value = getattr(asked, name)
        if value is not None:
            query = query.where(getattr(Note, name) == value)
    found, following = read_page(session, query, [Note.id], asked.window)
    return NoteList(items=[NoteAnswer.of(note) for note in found], next=following)


def _note(session: Session, note_id: int, *, lock: bool = False) -> Note:
    query = select(Note).where(Note.id == note_id)
    found = session.scalars(query.with_for_update() if lock else query) if is_storable(note_id) else None
    note = found.one_or_none() if found is not None else None
    if note is None:
        raise RefusedError(Code.UNKNOWN_NOTE, f"there is no note {note_id}", "see GET /v1/notes for those there are")
    return note


def _place(note: Note) -> HistoryPlace:
    return HistoryPlace(Thing.NOTE, element=note.element, note_id=note.id)


def _checked(text: str) -> str:
    checked = clean(text)
    if not checked:
        raise RefusedError(Code.INVALID_REQUEST, "the note has no text", 'send "text": what there is to say')
    return checked
