"""The forms of the pages: what they send is kept as the routes of /v1 keep it, and answered by the page again.

A form sends what it showed beside what was written, so that what nobody touched
is not said anew, and what somebody else changed meanwhile is not lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from penstock.core.tables import TableId
from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.api.queries import SchemaId
from penstock.schematizer.http.error_answers import PAGES
from penstock.schematizer.metadata.notes import add_note, change_note, read_note
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.documentation import (
    ElementAnnotations,
    SourceAnnotations,
    document_element,
    document_source,
    find_element,
    find_source,
    require_documentation,
)
from penstock.schematizer.security.rights import Asking
from penstock.schematizer.storage.database import AuthoredDatabase, UnitOfWork
from penstock.schematizer.storage.words import clean
from penstock.schematizer.v1.documentation import SourcePath
from penstock.schematizer.web.links import fragment, link
from penstock.schematizer.web.origins import read_form
from penstock.schematizer.web.reading import read_source_page
from penstock.schematizer.web.rendering import render
from penstock.schematizer.web.schema_reading import read_schema_page

router = APIRouter(prefix=PAGES, include_in_schema=False)
_SOURCE = "/sources/{namespace}/{table_schema}/{table_name}"
Form = Annotated[Mapping[str, str], Depends(read_form)]
_AUTHOR_CHARACTERS_MAX = 255
_DIGITS_MAX = 19
_LENGTHS_MAX = {"owner_email": 1000, "category": 255, "doc": 100_000, "text": 100_000}
_PII = {"": None, "true": True, "false": False}
_FIELD_OF_CODE = {
    Code.INVALID_EMAIL: "owner_email",
    Code.OWNER_REQUIRED: "owner_email",
    Code.DOCS_REQUIRED: "doc",
}


class FieldRefusedError(RefusedError):
    """What is wrong with one field of a form."""

    def __init__(self, code: Code, field: str, message: str, hint: str) -> None:
        """Name the field beside what a refusal has."""
        super().__init__(code, message, hint)
        self.args = (code, field, message, hint)
        self.field = field


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wrote into the form called `form` that was refused."""

    form: str
    fields: Mapping[str, str]
    refused: RefusedError

    @property
    def field(self) -> str:
        """The field that the refusal is about, "" for the form as a whole."""
        if isinstance(self.refused, FieldRefusedError):
            return self.refused.field
        return _FIELD_OF_CODE.get(self.refused.code, "")


@router.post(_SOURCE)
def post_source(request: Request, store: Store, place: SourcePath, form: Form) -> Response:
    """Keep owner, category and docs of a table."""
    try:
        _writer(store, form).write(lambda work: _document_source(work, place, form))
    except RefusedError as refused:
        return _source_again(request, store, place, Draft("source", form, refused))
    return _see_other(request, _source_link(place))


@router.post(_SOURCE + "/columns")
def post_column(request: Request, store: Store, place: SourcePath, form: Form) -> Response:
    """Keep docs of a column, and whether it holds personal data."""
    name = form.get("element", "")
    try:
        _writer(store, form).write(lambda work: _document_element(work, place, name, form))
    except RefusedError as refused:
        if refused.code is Code.UNKNOWN_ELEMENT:
            raise
        return _source_again(request, store, place, Draft(f"column {name}", form, refused))
    return _see_other(request, f"{_source_link(place)}#column-{fragment(name)}")


@router.post("/schemas/{schema_id}/notes")
def post_note(request: Request, store: Store, schema_id: SchemaId, asking: Asking, form: Form) -> Response:
    """Add a note to a schema, or give one of its notes (`note_id`) another text."""
    note = form.get("note_id", "")
    try:
        note_id = _writer(store, form).write(lambda work: _write_note(work, schema_id, note, form))
    except RefusedError as refused:
        if refused.code is Code.UNKNOWN_NOTE:
            raise
        draft = Draft(f"note {note}" if note else "note", form, refused)
        page = store.read(lambda session: read_schema_page(session, schema_id, asking))
        return render(request, "schema.html", refused.code.status, page=page, draft=draft)
    return _see_other(request, f"{link('schemas', str(schema_id))}#note-{note_id}")


def _document_source(work: UnitOfWork, place: tuple[str, TableId], form: Mapping[str, str]) -> None:
    source = find_source(work.session, *place, lock=True)
    now = {"owner_email": source.owner_email, "category": source.category, "doc": source.doc}
    said = {name: _written(form, name, value) for name, value in now.items()}
    document_source(work, source, SourceAnnotations(**said))
    require_documentation(source)


def _document_element(work: UnitOfWork, place: tuple[str, TableId], name: str, form: Mapping[str, str]) -> None:
    source = find_source(work.session, *place, lock=True)
    element = find_element(work.session, source, name)
    now = {None: "", True: "true", False: "false"}[element.contains_pii]
    contains_pii = _PII.get(_written(form, "contains_pii", now) or "")
    document_element(work, source, name, ElementAnnotations(_written(form, "doc", element.doc), contains_pii))


def _write_note(work: UnitOfWork, schema_id: int, note: str, form: Mapping[str, str]) -> int:
    text = _short(form, "text")
    if not clean(text):
        raise FieldRefusedError(Code.INVALID_REQUEST, "text", "the note has no text", "write what there is to say")
    if not note:
        return add_note(work, schema_id, form.get("element", ""), text).id
    before = (
        read_note(work.session, int(note)) if note.isascii() and note.isdecimal() and len(note) < _DIGITS_MAX else None
    )
    if before is None or before.schema_id != schema_id:
        raise RefusedError(Code.UNKNOWN_NOTE, f"schema {schema_id} has no note {note[:20]!r}", "open the page again")
    written = _written(form, "text", before.text)
    return change_note(work, before.id, written).id if written is not None else before.id


def _written(form: Mapping[str, str], name: str, now: str) -> str | None:
    """Return what was written into a field, None where it was left as it was shown. Raises RefusedError."""
    written, shown = _short(form, name), form.get(f"{name}_shown", "")
    if name not in form or written == shown or clean(written) == now:
        return None
    if shown != now:
        message = f"somebody else changed this meanwhile, to: {now[:200] or '(nothing)'}"
        hint = "save again to write yours over it, or open the page anew to keep theirs"
        raise FieldRefusedError(Code.CHANGED_MEANWHILE, name, message, hint)
    return written


def _short(form: Mapping[str, str], name: str) -> str:
    text, longest = form.get(name, ""), _LENGTHS_MAX.get(name, 1000)
    if len(text) > longest:
        message = f"this has {len(text)} characters, and may have {longest}"
        raise FieldRefusedError(Code.INVALID_REQUEST, name, message, "shorten it")
    return text


def _writer(store: Store, form: Mapping[str, str]) -> AuthoredDatabase:
    author = form.get("author", "").strip()
    if len(author) > _AUTHOR_CHARACTERS_MAX or not author.isprintable():
        message = f"a name has up to {_AUTHOR_CHARACTERS_MAX} printable characters"
        raise FieldRefusedError(Code.INVALID_REQUEST, "author", message, "write your name, or nothing")
    return AuthoredDatabase(store, author)


def _source_again(request: Request, store: Store, place: tuple[str, TableId], draft: Draft) -> Response:
    page = store.read(lambda session: read_source_page(session, *place))
    return render(request, "source.html", draft.refused.code.status, page=page, draft=draft)


def _source_link(place: tuple[str, TableId]) -> str:
    namespace, table = place
    return link("sources", namespace, table.schema, table.name)


def _see_other(request: Request, path: str) -> RedirectResponse:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}", status_code=303)
