"""What people say about namespaces, sources and elements, and what a namespace demands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.history import HistoryPlace, set_field
from penstock.schematizer.storage.models import Element, Namespace, Source, Thing
from penstock.schematizer.storage.search import enter, enter_new
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.core.tables import TableId
    from penstock.schematizer.storage.database import UnitOfWork

_EMAIL_CHARACTERS_MAX = 254
_LOCAL_CHARACTERS_MAX = 64
_LOCAL_PART = re.compile(r"[^\s@<>()\[\],;:\"\\.]+(\.[^\s@<>()\[\],;:\"\\.]+)*")
_DOMAIN = re.compile(r"(?:(?!-)[\w-]{1,63}(?<!-)\.)+(?!-)[\w-]{1,63}(?<!-)")


@dataclass(frozen=True, slots=True)
class SourceAnnotations:
    """What somebody says about a source: None leaves a part as it is, "" takes it away."""

    owner_email: str | None = None
    category: str | None = None
    doc: str | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is said."""
        return self.owner_email is None and self.category is None and self.doc is None


@dataclass(frozen=True, slots=True)
class ElementAnnotations:
    """What somebody says about an element: None leaves a part as it is."""

    doc: str | None = None
    contains_pii: bool | None = None


def find_namespace(session: Session, name: str) -> Namespace:
    """Return the namespace called `name`; RefusedError if there is none."""
    namespace = session.scalars(select(Namespace).where(Namespace.name == name)).one_or_none()
    if namespace is None:
        hint = "see GET /v1/namespaces for those there are, or make it with PUT"
        raise RefusedError(Code.UNKNOWN_NAMESPACE, f"there is no namespace {name!r}", hint)
    return namespace


def open_namespace(session: Session, name: str) -> Namespace:
    """Return the namespace called `name`, making it first if need be."""
    namespace = session.scalars(select(Namespace).where(Namespace.name == name)).one_or_none()
    if namespace is None:
        namespace = Namespace(name=name, created_at_ms=now_ms())
        session.add(namespace)
        session.flush()
        enter_new(session, HistoryPlace(Thing.NAMESPACE, name), namespace.id, name, "")
    return namespace


def set_rules(work: UnitOfWork, name: str, rules: dict[str, bool]) -> Namespace:
    """Set the rules of a namespace, making it if need be: those that `rules` names, by the names of its columns."""
    namespace = open_namespace(work.session, name)
    for rule, demanded in rules.items():
        set_field(work, HistoryPlace(Thing.NAMESPACE, name), namespace, rule, demanded)
    return namespace


def find_source(session: Session, namespace: str, table: TableId, *, lock: bool = False) -> Source:
    """Return a source; RefusedError if there is none. With `lock` it is the caller's until the transaction ends."""
    query = (
        select(Source)
        .join(Namespace, Namespace.id == Source.namespace_id)
        .where(Namespace.name == namespace, Source.table_schema == table.schema, Source.table_name == table.name)
    )
    source = session.scalars(query.with_for_update(of=Source) if lock else query).one_or_none()
    if source is None:
        message = f"there is no table {table} in namespace {namespace!r}"
        hint = "register it first: a registration may bring owner_email, category and doc along"
        raise RefusedError(Code.UNKNOWN_SOURCE, message, hint)
    return source


def find_element(session: Session, source: Source, name: str) -> Element:
    """Return an element of `source`; RefusedError if there is none."""
    query = select(Element).where(Element.source_id == source.id, Element.name == name)
    element = session.scalars(query).one_or_none()
    if element is None:
        message = f"{source.table_schema}.{source.table_name} has no element {name!r}"
        raise RefusedError(Code.UNKNOWN_ELEMENT, message, "see the source's elements for those there are")
    return element


def document_source(work: UnitOfWork, source: Source, said: SourceAnnotations) -> None:
    """Keep what is said of `source`, which the caller has locked. Raises RefusedError for a wrong address."""
    place = HistoryPlace.of_source(source)
    if said.owner_email is not None:
        set_field(work, place, source, "owner_email", check_email(said.owner_email))
    if said.category is not None:
        set_field(work, place, source, "category", clean(said.category))
    if said.doc is not None and set_field(work, place, source, "doc", clean(said.doc)):
        enter_source(work.session, source)


def document_element(work: UnitOfWork, source: Source, name: str, said: ElementAnnotations) -> Element:
    """Keep what is said of an element of `source`, which the caller has locked."""
    element = find_element(work.session, source, name)
    place = HistoryPlace.of_source(source, name)
    if said.contains_pii is not None:
        set_field(work, place, element, "contains_pii", said.contains_pii)
    if said.doc is not None and set_field(work, place, element, "doc", clean(said.doc)):
        enter(work.session, place, element.id, name, element.doc or element.comment)
    return element


def enter_source(session: Session, source: Source) -> None:
    """Make `source` found by its name and doc, as they are now."""
    name = f"{source.table_schema}.{source.table_name}"
    enter(session, HistoryPlace.of_source(source), source.id, name, source.doc or source.comment)


def require_documentation(source: Source) -> None:
    """Raise RefusedError where `source` lacks what its namespace demands."""
    namespace = source.namespace
    table = f"{source.table_schema}.{source.table_name}"
    if namespace.requires_owner and not source.owner_email:
        message = f"namespace {namespace.name!r} demands an owner, and {table} has none"
        raise RefusedError(Code.OWNER_REQUIRED, message, 'send "owner_email": the address of those who answer for it')
    if namespace.requires_docs and not (source.doc or source.comment):
        message = f"namespace {namespace.name!r} demands docs, and {table} has none"
        hint = 'send "doc": what a row of the table stands for; or give the table a COMMENT'
        raise RefusedError(Code.DOCS_REQUIRED, message, hint)


def check_email(text: str) -> str:
    """Return an e-mail address, or "". Raises RefusedError for anything else.

    Source: RFC 5321, section 4.5.3.1, for the lengths, and RFC 6531 for letters
    beyond ASCII; quoted local parts and addresses of hosts are not taken.
    """
    address = text.strip()
    local, _, domain = address.rpartition("@")
    fits = len(address) <= _EMAIL_CHARACTERS_MAX and len(local) <= _LOCAL_CHARACTERS_MAX and address.isprintable()
    if address and not (fits and _LOCAL_PART.fullmatch(local) and _DOMAIN.fullmatch(domain)):
        message = f"{text[:80]!r} is not an e-mail address"
        raise RefusedError(Code.INVALID_EMAIL, message, 'write it like orders-team@example.com, or "" for nobody')
    return address
