"""Where the pages are. Names in paths may hold anything: they are encoded whole, and decoded behind the router."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.schematizer.http.error_answers import PAGES
from penstock.schematizer.storage.models import Thing

if TYPE_CHECKING:
    from penstock.schematizer.api.documentation_answers import FoundAnswer


def link(*parts: str) -> str:
    """Return the path of a page from its parts."""
    return f"{PAGES}/" + "/".join(quote(part, safe="") for part in parts)


def fragment(name: str) -> str:
    """Return a name as the id of an element of a page, and behind the # of a link to it."""
    return quote(name, safe="")


def link_of_found(found: FoundAnswer) -> str:
    """Return the page of something that a search found, "" where there is none."""
    source = link("sources", found.namespace, found.table_schema, found.table_name)
    match found.kind:
        case Thing.NAMESPACE:
            return link("namespaces", found.name)
        case Thing.SOURCE:
            return source
        case Thing.TOPIC:
            return link("topics", found.name)
        case Thing.ELEMENT:
            return f"{source}#column-{fragment(found.name)}"
        case Thing.NOTE:
            return link("notes", str(found.note_id))
        case _:
            return ""
