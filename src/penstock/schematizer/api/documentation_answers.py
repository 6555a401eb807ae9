"""What the /v1 API answers about documentation, as OpenAPI describes it."""

from pydantic import Field

from penstock.schematizer.api.answers import Answer, NextPage
from penstock.schematizer.storage.models import Change, Element, Note, SearchEntry, Thing

_MS = 1_767_225_600_000


class ElementAnswer(Answer):
    """One column of a source."""

    name: str = Field(examples=["note"])
    type: str = Field(description="As the source declares it", examples=["varchar(64)"])
    is_key: bool = Field(description="Whether it belongs to the primary key", examples=[False])
    is_present: bool = Field(description="Whether the table still has it", examples=[True])
    doc: str = Field(description="What people say of it, else its comment", examples=["What the buyer remarked"])
    comment: str = Field(description="The column's own COMMENT", examples=["remark"])
    contains_pii: bool | None = Field(description="None until somebody knows", examples=[True])

    @classmethod
    def of(cls, element: Element) -> "ElementAnswer":
        """Render `element`."""
        return cls(
            name=element.name,
            type=element.type,
            is_key=element.is_key,
            is_present=element.is_present,
            doc=element.doc or element.comment,
            comment=element.comment,
            contains_pii=element.contains_pii,
        )


class SchemaElementAnswer(Answer):
    """One field of a schema; of a table's value, one column."""

    path: str = Field(description="Its name, after those of the records around it", examples=["note"])
    type: str = Field(description="As the source declares it, else Avro's", examples=["varchar(64)"])
    doc: str = Field(examples=["What the buyer remarked"])
    is_key: bool = Field(description="Whether it belongs to the key", examples=[False])
    contains_pii: bool | None = Field(description="None where nobody knows", examples=[True])


class CoverageAnswer(Answer):
    """How much of a namespace is documented and owned. Elements are those that tables still have."""

    namespace: str = Field(examples=["shopdb"])
    sources: int = Field(examples=[10])
    sources_with_owner: int = Field(examples=[9])
    sources_with_doc: int = Field(examples=[8])
    elements: int = Field(examples=[100])
    elements_with_doc: int = Field(examples=[80])
    owned_percent: float = Field(description="Of the sources; 100 where there are none", examples=[90.0])
    documented_percent: float = Field(description="Of sources and elements; 100 where there are none", examples=[80.0])


class NoteAnswer(Answer):
    """What somebody remarked."""

    id: int = Field(examples=[7])
    schema_id: int = Field(examples=[2])
    element: str = Field(description='The path of the element that it is on, "" if on the schema', examples=["note"])
    text: str = Field(examples=["Empty before March 2024."])
    author: str = Field(description='Who wrote it first, "" if unknown', examples=["ada@example.com"])
    created_at_ms: int = Field(description="Unix milliseconds", examples=[_MS])
    updated_at_ms: int = Field(description="Unix milliseconds", examples=[_MS])

    @classmethod
    def of(cls, note: Note) -> "NoteAnswer":
        """Render `note`."""
        return cls(
            id=note.id,
            schema_id=note.schema_id,
            element=note.element,
            text=note.text,
            author=note.author,
            created_at_ms=note.created_at_ms,
            updated_at_ms=note.updated_at_ms,
        )


class ChangeAnswer(Answer):
    """One change of one field. What does not matter to it is ""."""

    id: int = Field(examples=[31])
    at_ms: int = Field(description="Unix milliseconds", examples=[_MS])
    author: str = Field(description='From X-Penstock-Author, "" where it was absent', examples=["ada@example.com"])
    kind: Thing = Field(examples=["source"])
    namespace: str = Field(examples=["shopdb"])
    table_schema: str = Field(examples=["shop"])
    table_name: str = Field(examples=["orders"])
    element: str = Field(examples=[""])
    note_id: int | None = Field(examples=[None])
    entity: str = Field(description="The name or number of a thing that is none of these", examples=[""])
    field: str = Field(examples=["owner_email"])
    before: str = Field(examples=[""])
    after: str = Field(examples=["orders-team@example.com"])

    @classmethod
    def of(cls, change: Change) -> "ChangeAnswer":
        """Render `change`."""
        return cls(
            id=change.id,
            at_ms=change.at_ms,
            author=change.author,
            kind=Thing(change.kind),
            namespace=change.namespace,
            table_schema=change.table_schema,
            table_name=change.table_name,
            element=change.element,
            note_id=change.note_id,
            entity=change.entity,
            field=change.field,
            before=change.before,
            after=change.after,
        )


class FoundAnswer(Answer):
    """Something that a search found."""

    kind: Thing = Field(examples=["element"])
    namespace: str = Field(examples=["shopdb"])
    table_schema: str = Field(description='"" for a namespace and a note', examples=["shop"])
    table_name: str = Field(description='"" for a namespace and a note', examples=["orders"])
    name: str = Field(description='"" for a note', examples=["note"])
    doc: str = Field(description="Its docs, or a note's text", examples=["What the buyer remarked"])
    note_id: int | None = Field(description="For GET /v1/notes/{id}; None unless it is a note", examples=[None])

    @classmethod
    def of(cls, entry: SearchEntry) -> "FoundAnswer":
        """Render `entry`."""
        kind = Thing(entry.kind)
        return cls(
            kind=kind,
            namespace=entry.namespace,
            table_schema=entry.table_schema,
            table_name=entry.table_name,
            name=entry.name,
            doc=entry.doc,
            note_id=entry.entity_id if kind is Thing.NOTE else None,
        )


class ElementList(Answer):
    """Elements of a source, in the table's order."""

    items: list[ElementAnswer]
    next: NextPage


class SchemaElementList(Answer):
    """Elements of a schema, in its order."""

    items: list[SchemaElementAnswer]
    next: NextPage


class NoteList(Answer):
    """Notes, the oldest first."""

    items: list[NoteAnswer]
    next: NextPage


class ChangeList(Answer):
    """Changes, the newest first."""

    items: list[ChangeAnswer]
    next: NextPage


class FoundList(Answer):
    """What was found: names before docs."""

    items: list[FoundAnswer]
    next: NextPage
