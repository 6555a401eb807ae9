"""The /v1 routes about documentation: rules, owners, docs, elements and coverage."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.core.tables import TableId
from penstock.schematizer.api.answers import NamespaceAnswer, SourceAnswer
from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.documentation_answers import (
    CoverageAnswer,
    ElementAnswer,
    ElementList,
    SchemaElementAnswer,
    SchemaElementList,
)
from penstock.schematizer.api.paging import slice_page
from penstock.schematizer.api.queries import (
    Category,
    Doc,
    ElementPath,
    ElementQuery,
    NamespacePath,
    OwnerEmail,
    SchemaId,
    SchemaPath,
    TablePath,
)
from penstock.schematizer.metadata.catalog import read_coverage, read_elements
from penstock.schematizer.registry.documentation import (
    ElementAnnotations,
    SourceAnnotations,
    document_element,
    document_source,
    find_namespace,
    find_source,
    require_documentation,
    set_rules,
)
from penstock.schematizer.registry.elements import elements_of_schema
from penstock.schematizer.storage.database import UnitOfWork

router = APIRouter(prefix="/v1", tags=["documentation"], responses=dict(ERRORS))
SOURCE = "/sources/{namespace}/{table_schema}/{table_name}"


def source_path(namespace: NamespacePath, table_schema: SchemaPath, table_name: TablePath) -> tuple[str, TableId]:
    """Return what a path says which source it is about: the namespace and the table."""
    return namespace, TableId(table_schema, table_name)


SourcePath = Annotated[tuple[str, TableId], Depends(source_path)]


class RulesRequest(BaseModel):
    """What a namespace demands; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requires_owner: bool | None = Field(default=None, examples=[True])
    requires_docs: bool | None = Field(default=None, examples=[False])


class SourceRequest(BaseModel):
    """What people say of a source: "" takes a part away, what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner_email: OwnerEmail = None
    category: Category = None
    doc: Doc = None


class ElementRequest(BaseModel):
    """What people say of an element; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    doc: Doc = None
    contains_pii: bool | None = Field(default=None, examples=[True])


@router.put("/namespaces/{namespace}", summary="Set a namespace's rules")
def put_namespace(writer: Writer, namespace: NamespacePath, body: RulesRequest) -> NamespaceAnswer:
    """Set what registrations of new tables and shapes need; the namespace is made if there is none.

    Tables that are registered stay as they are, and are answered as before.
    """
    rules = {name: demanded for name, demanded in body.model_dump().items() if demanded is not None}
    return writer.write(lambda work: NamespaceAnswer.of(set_rules(work, namespace, rules)))


@router.get("/namespaces/{namespace}", summary="One namespace")
def get_namespace(store: Store, namespace: NamespacePath) -> NamespaceAnswer:
    """Describe one namespace."""
    return store.read(lambda session: NamespaceAnswer.of(find_namespace(session, namespace)))


@router.get("/namespaces/{namespace}/coverage", summary="How much is documented")
def get_coverage(store: Store, namespace: NamespacePath) -> CoverageAnswer:
    """Count how many sources and elements of a namespace have docs, and how many sources have an owner."""
    return store.read(lambda session: read_coverage(session, find_namespace(session, namespace)))


@router.get(SOURCE, summary="One source")
def get_source(store: Store, place: SourcePath) -> SourceAnswer:
    """Describe one source."""
    return store.read(lambda session: SourceAnswer.of(find_source(session, *place)))


@router.put(SOURCE, summary="Document a source")
def put_source(writer: Writer, place: SourcePath, body: SourceRequest) -> SourceAnswer:
    """Set owner, category and docs of a source. Its namespace's rules are kept."""
    said = SourceAnnotations(body.owner_email, body.category, body.doc)
    return writer.write(lambda work: _document(work, place, said))


def _document(work: UnitOfWork, place: tuple[str, TableId], said: SourceAnnotations) -> SourceAnswer:
    source = find_source(work.session, *place, lock=True)
    document_source(work, source, said)
    require_documentation(source)
    return SourceAnswer.of(source)


@router.put(SOURCE + "/elements/{element}", summary="Document an element")
def put_element(writer: Writer, place: SourcePath, element: ElementPath, body: ElementRequest) -> ElementAnswer:
    """Set docs of an element, and whether it holds personal data."""
    said = ElementAnnotations(body.doc, body.contains_pii)
    return writer.write(
        lambda work: ElementAnswer.of(
            document_element(work, find_source(work.session, *place, lock=True), element, said)
        )
    )


@router.get(SOURCE + "/elements", summary="A source's elements")
def get_source_elements(
    store: Store,
    place: SourcePath,
    asked: Annotated[ElementQuery, Query()],
) -> ElementList:
    """List the columns of a source, in the table's order, and at the end those that it has no more."""
    return store.read(lambda session: read_elements(session, find_source(session, *place), asked))


@router.get("/schemas/{schema_id}/elements", summary="A schema's elements")
def get_schema_elements(
    store: Store, schema_id: SchemaId, asked: Annotated[ElementQuery, Query()]
) -> SchemaElementList:
    """List the fields of a schema, in its order; of a table's value, the table's columns.

    Docs that people gave the column come before those in the schema.
    """
    found = store.read(lambda session: elements_of_schema(session, schema_id))
    wanted = [each for each in found if asked.documented is None or bool(each.doc) == asked.documented]
    told, following = slice_page(wanted, asked.window)
    return SchemaElementList(
        items=[
            SchemaElementAnswer(
                path=each.path, type=each.type, doc=each.doc, is_key=each.is_key, contains_pii=each.contains_pii
            )
            for each in told
        ],
        next=following,
    )
