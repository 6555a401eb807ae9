"""What callers may ask of lists, and how names are written in paths, queries, headers and bodies."""

from typing import Annotated

from fastapi import Header, Path, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from penstock.schematizer.api.paging import Window
from penstock.schematizer.ids import NO_ID, parse_id
from penstock.schematizer.path_segments import decoded
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.rights import user_of
from penstock.schematizer.storage.models import SchemaKind, Thing

_ID_MAX = (1 << 63) - 1
PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
NO_NUL = r"^[^\x00]*$"
_AUTHOR_CHARACTERS_MAX = 255

NamespaceName = Annotated[str, Field(min_length=1, max_length=100, pattern=PRINTABLE, examples=["shopdb"])]
PathSegment = Annotated[
    str, StringConstraints(min_length=1, max_length=1000, pattern=PRINTABLE), BeforeValidator(decoded)
]
_NewNamespace = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=PRINTABLE)]
NamespacePath = Annotated[_NewNamespace, BeforeValidator(decoded), Path(examples=["shopdb"])]
SchemaPath = Annotated[PathSegment, Path(description="The table's database", examples=["shop"])]
TablePath = Annotated[PathSegment, Path(description="The table's own name", examples=["orders"])]
ElementPath = Annotated[PathSegment, Path(description="The column's name", examples=["note"])]
TopicName = Annotated[PathSegment, Path(examples=["shopdb.shop.orders"])]

Id = Annotated[int, BeforeValidator(parse_id)]
# No id is negative, and databases refuse numbers that are too long for them: -1 stands for those.
SchemaId = Annotated[Id, AfterValidator(lambda schema_id: max(schema_id, NO_ID))]
OwnerEmail = Annotated[
    str | None,
    Field(max_length=1000, pattern=NO_NUL, description="An e-mail address", examples=["orders-team@example.com"]),
]
Category = Annotated[str | None, Field(max_length=255, pattern=NO_NUL, examples=["sales"])]
Doc = Annotated[
    str | None, Field(max_length=100_000, pattern=NO_NUL, examples=["One row for each order, from its first click on"])
]
NoteText = Annotated[
    str, Field(min_length=1, max_length=100_000, pattern=NO_NUL, examples=["Empty before March 2024."])
]

ClusterType = Annotated[
    str | None,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$",
        description="The kind of Kafka cluster that the topic is in; another one opens a new topic",
        examples=["datapipe"],
    ),
]
Partitions = Annotated[
    int | None, Field(ge=1, le=32_767, description="How many partitions the topic has", examples=[8])
]
Compacted = Annotated[bool | None, Field(description="Whether Kafka compacts the topic", examples=[True])]

TextFilter = Annotated[str, Field(max_length=1000, pattern=NO_NUL)]
IdFilter = Annotated[int, Field(ge=1, le=_ID_MAX)]
TimeFilter = Annotated[int, Field(ge=0, le=_ID_MAX, description="Unix milliseconds")]


class PageQuery(BaseModel):
    """The part of a list that is asked for. An unknown filter is refused, not passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=100, ge=1, le=1000, description="How many items a page has at most")
    after: str = Field(default="", max_length=10_000, description="The `next` of the page before")

    @property
    def window(self) -> Window:
        """What is asked for, as the lists take it."""
        return Window(self.limit, self.after)


class NamespaceQuery(PageQuery):
    """Which namespaces."""

    prefix: TextFilter = Field(default="", description="Only those whose name begins so")


class TableQuery(PageQuery):
    """What belongs to which tables."""

    namespace: TextFilter = Field(default="", description="Only those of this namespace", examples=["shopdb"])
    table_schema: TextFilter = Field(default="", description="Only those of tables of this database", examples=["shop"])
    table_name: TextFilter = Field(default="", description="Only those of tables of this name", examples=["orders"])


class TopicQuery(TableQuery):
    """Which topics."""

    created_after: TimeFilter | None = Field(default=None, description="Only those made since then, Unix ms")


class SourceQuery(TableQuery):
    """Which sources."""

    owner_email: TextFilter | None = Field(default=None, description='Only those of this owner; "": of nobody')
    category: TextFilter | None = Field(default=None, description='Only those of this category; "": of none')
    documented: bool | None = Field(default=None, description="Only those with docs, or without")


class TopicSchemaQuery(PageQuery):
    """Which schemas of a topic."""

    kind: SchemaKind | None = Field(default=None, description="Only those of keys, or of values")


class ElementQuery(PageQuery):
    """Which elements."""

    documented: bool | None = Field(default=None, description="Only those with docs, or without")


class NoteQuery(PageQuery):
    """Which notes."""

    schema_id: IdFilter | None = Field(default=None, description="Only those on this schema and its elements")
    element: TextFilter | None = Field(default=None, description='Only those on elements of this path; "": on schemas')
    author: TextFilter | None = Field(default=None, description='Only those of this author; "": of nobody')


class HistoryQuery(PageQuery):
    """Which changes."""

    kind: Thing | None = Field(default=None, description="Only changes of this kind of thing")
    author: TextFilter | None = Field(default=None, description='Only those of this author; "": of nobody')
    namespace: TextFilter | None = Field(default=None, description="Only those in this namespace")
    table_schema: TextFilter | None = Field(default=None, description="Only those of tables of this database")
    table_name: TextFilter | None = Field(default=None, description="Only those of tables of this name")
    element: TextFilter | None = Field(default=None, description="Only those of this element")
    field: TextFilter | None = Field(default=None, description="Only those of this field", examples=["owner_email"])
    note_id: IdFilter | None = Field(default=None, description="Only those of this note")
    entity: TextFilter | None = Field(default=None, description="Only those of the thing of this name or number")
    since_ms: TimeFilter | None = None
    until_ms: TimeFilter | None = None


class SearchQuery(PageQuery):
    """What to look for."""

    q: str = Field(min_length=1, max_length=200, pattern=NO_NUL, description="Words", examples=["order note"])
    kind: Thing | None = Field(default=None, description="Only things of this kind")
    namespace: TextFilter | None = Field(default=None, description="Only things of this namespace")


async def author_of(
    request: Request,
    x_penstock_author: Annotated[str, Header(description="Who changes something, for the history")] = "",
) -> str:
    """Return who sends a request: the user, or where nobody signs in whoever it says, "" for nobody.

    Raises RefusedError for what is no name.
    """
    user = user_of(request.scope)
    if user.name:
        return user.name
    try:
        # Headers arrive as Latin-1, whatever they are.
        author = x_penstock_author.encode("latin-1").decode()
    except UnicodeDecodeError:
        author = x_penstock_author
    author = author.strip()
    if len(author) > _AUTHOR_CHARACTERS_MAX or not author.isprintable():
        hint = f"send up to {_AUTHOR_CHARACTERS_MAX} printable characters, in UTF-8"
        raise RefusedError(Code.INVALID_REQUEST, "X-Penstock-Author is no name", hint)
    return author
