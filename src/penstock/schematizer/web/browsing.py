"""The pages that show what there is."""

from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.api.queries import (
    HistoryQuery,
    Id,
    NamespacePath,
    SearchQuery,
    SourceQuery,
)
from penstock.schematizer.http.error_answers import PAGES
from penstock.schematizer.metadata.documentation_catalog import read_found, read_history
from penstock.schematizer.metadata.notes import read_note
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.models import Thing
from penstock.schematizer.v1.documentation import SourcePath
from penstock.schematizer.web.links import link, link_of_found
from penstock.schematizer.web.reading import (
    read_home,
    read_namespace_page,
    read_source_page,
)
from penstock.schematizer.web.rendering import render

router = APIRouter(prefix=PAGES, include_in_schema=False)
_SOURCE = "/sources/{namespace}/{table_schema}/{table_name}"
_STATIC = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOUND_PER_PAGE = 30
_CHANGES_PER_PAGE = 50
_WORDS_CHARACTERS_MAX = 200
After = Annotated[str, Query(max_length=10_000)]
Text = Annotated[str, Query(max_length=1000, pattern=r"^[^\x00]*$")]


@router.get("/static/{name}")
def get_static(name: str) -> Response:
    """Return the style, the script or the icon."""
    if name not in _STATIC:
        raise RefusedError(Code.UNKNOWN_ROUTE, f"there is no file {name!r}", "begin at /ui/")
    content = files("penstock.schematizer.web").joinpath("static", name).read_bytes()
    headers = {"Cache-Control": "max-age=300", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=_STATIC[name], headers=headers)


@router.get("/")
def get_home(request: Request, store: Store, after: After = "") -> HTMLResponse:
    """Show every namespace, and what was changed last."""
    return render(request, "home.html", page=store.read(lambda session: read_home(session, after)))


@router.get("/namespaces/{namespace}")
def get_namespace(
    request: Request,
    store: Store,
    namespace: NamespacePath,
    lacks: Annotated[str, Query(pattern="^(owner|docs)?$")] = "",
    category: Text = "",
    after: After = "",
) -> HTMLResponse:
    """Show a namespace's sources: all, those of a category, or those that lack an owner or docs."""
    asked = SourceQuery(
        after=after,
        owner_email="" if lacks == "owner" else None,
        documented=False if lacks == "docs" else None,
        category=category or None,
    )
    page = store.read(lambda session: read_namespace_page(session, namespace, asked))
    return render(request, "namespace.html", page=page, lacks=lacks, category=category)


@router.get(_SOURCE)
def get_source(request: Request, store: Store, place: SourcePath) -> HTMLResponse:
    """Show a table: who answers for it, its columns, its topics, and what was changed."""
    page = store.read(lambda session: read_source_page(session, *place))
    return render(request, "source.html", page=page, draft=None)


@router.get("/search")
def get_search(
    request: Request, store: Store, q: Text = "", kind: Thing | None = None, namespace: Text = "", after: After = ""
) -> HTMLResponse:
    """Show what has every word of `q`, everywhere or in a namespace."""
    words = q[:_WORDS_CHARACTERS_MAX].strip()
    found = None
    if words:
        asked = SearchQuery(q=words, kind=kind, namespace=namespace or None, after=after, limit=_FOUND_PER_PAGE)
        found = store.read(lambda session: read_found(session, asked))
    within = {"namespace": namespace} if namespace else {}
    return render(
        request, "search.html", searched=q, found=found, kind=kind, within=within, link_of_found=link_of_found
    )


@router.get("/notes/{note_id}")
def get_note(request: Request, store: Store, note_id: Id) -> RedirectResponse:
    """Lead to the page that a note is on."""
    note = store.read(lambda session: read_note(session, note_id))
    root = str(request.scope.get("root_path", ""))
    return RedirectResponse(f"{root}{link('schemas', str(note.schema_id))}#note-{note.id}", status_code=303)


@router.get("/history")
def get_history(
    request: Request,
    store: Store,
    namespace: Text = "",
    table_schema: Text = "",
    table_name: Text = "",
    after: After = "",
) -> HTMLResponse:
    """Show who changed what: everywhere, in a namespace, or of a table."""
    places = {"namespace": namespace, "table_schema": table_schema, "table_name": table_name}
    asked = HistoryQuery(
        limit=_CHANGES_PER_PAGE,
        after=after,
        namespace=namespace or None,
        table_schema=table_schema or None,
        table_name=table_name or None,
    )
    changes = store.read(lambda session: read_history(session, asked))
    return render(request, "history.html", changes=changes, places={k: v for k, v in places.items() if v})
