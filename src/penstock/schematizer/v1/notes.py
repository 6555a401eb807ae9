"""The /v1 routes about notes, the history of changes, and search."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.documentation_answers import ChangeList, FoundList, NoteAnswer, NoteList
from penstock.schematizer.api.queries import HistoryQuery, Id, NoteQuery, NoteText, SchemaId, SearchQuery
from penstock.schematizer.metadata.documentation_catalog import read_found, read_history
from penstock.schematizer.metadata.notes import add_note, change_note, read_note, read_notes

router = APIRouter(prefix="/v1", tags=["documentation"], responses={code: ERRORS[code] for code in (422, 503)})
_MISSING: dict[int | str, dict[str, object]] = {404: ERRORS[404]}


class NoteTextRequest(BaseModel):
    """The text of a note."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: NoteText


class NoteRequest(NoteTextRequest):
    """A note and what it is on."""

    schema_id: SchemaId = Field(examples=[2])
    element: str = Field(
        default="", max_length=10_000, description='The path of an element, "" for the schema', examples=["note"]
    )


@router.post("/notes", summary="Add a note", responses=_MISSING)
def post_note(writer: Writer, body: NoteRequest) -> NoteAnswer:
    """Remark something on a schema, or on one of its elements."""
    return writer.write(lambda work: add_note(work, body.schema_id, body.element, body.text))


@router.get("/notes", summary="List notes")
def get_notes(store: Store, asked: Annotated[NoteQuery, Query()]) -> NoteList:
    """List notes, the oldest first."""
    return store.read(lambda session: read_notes(session, asked))


@router.get("/notes/{note_id}", summary="One note", responses=_MISSING)
def get_note(store: Store, note_id: Id) -> NoteAnswer:
    """Return a note."""
    return store.read(lambda session: read_note(session, note_id))


@router.put("/notes/{note_id}", summary="Change a note", responses=_MISSING)
def put_note(writer: Writer, note_id: Id, body: NoteTextRequest) -> NoteAnswer:
    """Give a note another text; the history keeps the one before."""
    return writer.write(lambda work: change_note(work, note_id, body.text))


@router.get("/history", summary="Who changed what, when")
def get_history(store: Store, asked: Annotated[HistoryQuery, Query()]) -> ChangeList:
    """List changes of owners, categories, docs, notes and rules, the newest first."""
    return store.read(lambda session: read_history(session, asked))


@router.get("/search", summary="Search names and docs")
def get_search(store: Store, asked: Annotated[SearchQuery, Query()]) -> FoundList:
    """Find what has every word of `q` in its name or docs, without regard to case and accents.

    The same name comes first, then names that begin so, names that have the words, and docs.
    """
    return store.read(lambda session: read_found(session, asked))
