"""The /v1 routes about meta attributes, which namespaces, sources and schemas have."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.queries import NamespacePath, PageQuery, SchemaId
from penstock.schematizer.api.usage_answers import MetaAttributeAnswer, MetaAttributeList
from penstock.schematizer.metadata.meta_attributes import (
    add_meta_attribute,
    delete_meta_attribute,
    read_meta_attributes,
)
from penstock.schematizer.metadata.scopes import Scoped
from penstock.schematizer.registry.documentation import find_namespace, find_source
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.usage_models import Scope
from penstock.schematizer.v1.documentation import SOURCE, SourcePath

router = APIRouter(prefix="/v1", tags=["meta attributes"], responses=dict(ERRORS))
_NAMESPACE = "/namespaces/{namespace}/meta_attributes"
_SOURCE = SOURCE + "/meta_attributes"
_SCHEMA = "/schemas/{schema_id}/meta_attributes"
Page = Annotated[PageQuery, Query()]


class MetaAttributeRequest(BaseModel):
    """Which data messages carry beside their own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_id: SchemaId = Field(description="The meta attribute's schema", examples=[7])


@router.post(_NAMESPACE, summary="Give a namespace a meta attribute")
def post_of_namespace(writer: Writer, namespace: NamespacePath, body: MetaAttributeRequest) -> MetaAttributeAnswer:
    """Say that messages of every source of a namespace carry data of a schema beside their own."""
    return writer.write(
        lambda work: add_meta_attribute(
            work, Scoped(Scope.NAMESPACE, find_namespace(work.session, namespace).id), body.schema_id
        )
    )


@router.get(_NAMESPACE, summary="A namespace's meta attributes")
def get_of_namespace(store: Store, namespace: NamespacePath, asked: Page) -> MetaAttributeList:
    """List the meta attributes of a namespace."""
    return store.read(
        lambda session: read_meta_attributes(
            session, Scoped(Scope.NAMESPACE, find_namespace(session, namespace).id), asked.window
        )
    )


@router.delete(_NAMESPACE + "/{schema_id}", summary="Take a meta attribute from a namespace")
def delete_of_namespace(writer: Writer, namespace: NamespacePath, schema_id: SchemaId) -> MetaAttributeAnswer:
    """Say that messages of a namespace carry it no more; the answer is what it was."""
    return writer.write(
        lambda work: delete_meta_attribute(
            work, Scoped(Scope.NAMESPACE, find_namespace(work.session, namespace).id), schema_id
        )
    )


@router.post(_SOURCE, summary="Give a source a meta attribute")
def post_of_source(writer: Writer, place: SourcePath, body: MetaAttributeRequest) -> MetaAttributeAnswer:
    """Say that messages of a source carry data of a schema beside their own."""
    return writer.write(
        lambda work: add_meta_attribute(
            work, Scoped(Scope.SOURCE, find_source(work.session, *place).id), body.schema_id
        )
    )


@router.get(_SOURCE, summary="A source's meta attributes")
def get_of_source(store: Store, place: SourcePath, asked: Page) -> MetaAttributeList:
    """List the meta attributes of a source, those of its namespace first."""
    return store.read(
        lambda session: read_meta_attributes(
            session, Scoped(Scope.SOURCE, find_source(session, *place).id), asked.window
        )
    )


@router.delete(_SOURCE + "/{schema_id}", summary="Take a meta attribute from a source")
def delete_of_source(writer: Writer, place: SourcePath, schema_id: SchemaId) -> MetaAttributeAnswer:
    """Say that messages of a source carry it no more; the answer is what it was."""
    return writer.write(
        lambda work: delete_meta_attribute(work, Scoped(Scope.SOURCE, find_source(work.session, *place).id), schema_id)
    )


@router.post(_SCHEMA, summary="Give a schema a meta attribute")
def post_of_schema(writer: Writer, schema_id: SchemaId, body: MetaAttributeRequest) -> MetaAttributeAnswer:
    """Say that messages with this schema carry data of another one beside their own."""
    return writer.write(
        lambda work: add_meta_attribute(
            work, Scoped(Scope.SCHEMA, schema_by_id(work.session, schema_id).id), body.schema_id
        )
    )


@router.get(_SCHEMA, summary="A schema's meta attributes")
def get_of_schema(store: Store, schema_id: SchemaId, asked: Page) -> MetaAttributeList:
    """List the meta attributes of messages with a schema: those of namespaces, of sources, and its own."""
    return store.read(
        lambda session: read_meta_attributes(
            session, Scoped(Scope.SCHEMA, schema_by_id(session, schema_id).id), asked.window
        )
    )


@router.delete(_SCHEMA + "/{attribute_schema_id}", summary="Take a meta attribute from a schema")
def delete_of_schema(writer: Writer, schema_id: SchemaId, attribute_schema_id: SchemaId) -> MetaAttributeAnswer:
    """Say that messages with a schema carry it no more; the answer is what it was."""
    return writer.write(
        lambda work: delete_meta_attribute(
            work, Scoped(Scope.SCHEMA, schema_by_id(work.session, schema_id).id), attribute_schema_id
        )
    )
