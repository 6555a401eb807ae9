"""Elements: the columns of a source as its newest registration has them, and the fields of any schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.registry.documentation import enter_source
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.history import HistoryPlace, set_field
from penstock.schematizer.storage.models import Element, SchemaKind, Source, Subject, SubjectVersion, Topic
from penstock.schematizer.storage.search import enter, enter_new
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.orm import Session

    from penstock.schematizer.storage.database import UnitOfWork
    from penstock.schematizer.storage.models import Schema


@dataclass(frozen=True, slots=True)
class SchemaElement:
    """A field of a schema: where it is, what it holds and what is known about it (`contains_pii` None: nothing).

    `default` is what stands in where it is left out, as JSON or as the source
    prints it; None without one. `nullable` is None where the type itself says it.
    """

    path: str
    type: str
    doc: str
    is_key: bool
    contains_pii: bool | None = None
    default: str | None = None
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """What a source says of itself: the text of its value's schema, and the fields that are its key."""

    value_text: str
    key_fields: tuple[str, ...]

    @property
    def comment(self) -> str:
        """What it says of the whole."""
        try:
            return clean(table_schema(self.value_text).comment)
        except PenstockError:
            declared = json.loads(self.value_text)
            return clean(str(declared.get("doc") or "")) if isinstance(declared, dict) else ""

    def elements(self) -> list[SchemaElement]:
        """Return its columns or fields, each path once."""
        listed = {each.path: each for each in reversed(avro_elements(self.value_text, is_key=False))}
        return [replace(each, is_key=each.path in self.key_fields) for each in reversed(listed.values())]


def describe_source(work: UnitOfWork, source: Source, described: Described) -> None:
    """Make comment and elements of `source`, which the caller has locked, what it says; docs of people stay."""
    is_new = work.session.scalar(select(Element.id).where(Element.source_id == source.id).limit(1)) is None
    comment = described.comment
    if is_new:
        source.comment = comment
    else:
        set_field(work, HistoryPlace.of_source(source), source, "comment", comment)
    enter_source(work.session, source)
    _keep_elements(work, source, described)


def _keep_elements(work: UnitOfWork, source: Source, described: Described) -> None:
    known = {each.name: each for each in work.session.scalars(select(Element).where(Element.source_id == source.id))}
    new = []
    for position, said in enumerate(described.elements()):
        element = known.pop(said.path, None)
        if element is None:
            element = Element(source_id=source.id, name=said.path, comment=said.doc, doc="")
            new.append(element)
        else:
            _keep_comment(work, source, element, said.doc)
        element.position, element.type, element.is_present = position, said.type, True
        element.is_key = said.is_key
    for gone in known.values():
        gone.is_present = False
    work.session.add_all(new)
    work.session.flush()
    for element in new:
        enter_new(work.session, HistoryPlace.of_source(source, element.name), element.id, element.name, element.comment)


def _keep_comment(work: UnitOfWork, source: Source, element: Element, comment: str) -> None:
    place = HistoryPlace.of_source(source, element.name)
    if set_field(work, place, element, "comment", comment):
        enter(work.session, place, element.id, element.name, element.doc or comment)


def elements_of_schema(session: Session, schema_id: int) -> list[SchemaElement]:
    """Return the elements of a schema, in its order; RefusedError if there is no such schema.

    Of a table's value these are its columns; what people said of them is told
    where the schema is one table's alone.
    """
    schema = schema_by_id(session, schema_id)
    kinds = session.execute(
        select(Subject.kind, Topic.source_id, Topic.contains_pii)
        .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
        .outerjoin(Topic, Topic.id == Subject.topic_id)
        .where(SubjectVersion.schema_id == schema_id)
    ).all()
    is_key = any(kind == SchemaKind.KEY for kind, _, _ in kinds)
    # The outer join gives None where the type checker sees none.
    sources = {source_id for _, source_id, _ in kinds} - {None}
    said: dict[str, Element] = {}
    if len(sources) == 1:
        query = select(Element).where(Element.source_id.in_(sources))
        said = {each.name: each for each in session.scalars(query)}
    is_harmless = bool(sources) and not any(contains_pii for _, _, contains_pii in kinds)
    return [_told(each, said.get(each.path), is_harmless=is_harmless) for each in plan_elements(schema, is_key=is_key)]


def _told(element: SchemaElement, said: Element | None, *, is_harmless: bool) -> SchemaElement:
    contains_pii = said.contains_pii if said is not None else None
    if contains_pii is None and is_harmless:
        contains_pii = False
    doc = (said.doc if said is not None else "") or element.doc or (said.comment if said is not None else "")
    return replace(element, doc=doc, contains_pii=contains_pii)


def plan_elements(schema: Schema, *, is_key: bool) -> list[SchemaElement]:
    """Return the elements that a schema declares; none are told of types other than Avro. See `avro_elements`."""
    return avro_elements(schema.text, is_key=is_key) if schema.type == SchemaType.AVRO else []


def avro_elements(text: str, *, is_key: bool) -> list[SchemaElement]:
    """Return the elements that an Avro schema's text declares.

    `is_key`: it is the schema of a key, so everything in it belongs to the key.
    """
    try:
        table = table_schema(text)
    except PenstockError:
        return list(_fields(json.loads(text), "", is_key=is_key))
    return [
        SchemaElement(
            column.name,
            clean(column.declaration),
            clean(column.comment),
            column.name in table.key,
            default="computed by the source" if column.default_is_expression else column.default,
            nullable=column.nullable,
        )
        for column in table.columns
    ]


def _fields(declared: object, path: str, *, is_key: bool) -> Iterator[SchemaElement]:
    """Walk records, wherever they are declared. Where a union has several, their names are part of the path."""
    if isinstance(declared, list):
        records = sum(isinstance(branch, dict) and branch.get("type") in _RECORDS for branch in declared)
        for branch in declared:
            named = records > 1 and isinstance(branch, dict) and "name" in branch
            yield from _fields(branch, _join(path, str(branch["name"])) if named else path, is_key=is_key)
    elif isinstance(declared, dict):
        if declared.get("type") in _RECORDS:
            for field in declared["fields"]:
                own = _join(path, clean(str(field.get("penstock.name", field["name"]))))
                doc = clean(str(field.get("doc") or ""))
                default = json.dumps(field["default"], ensure_ascii=False) if "default" in field else None
                yield SchemaElement(own, clean(_type_text(field["type"])), doc, is_key, default=default)
                yield from _fields(field["type"], own, is_key=is_key)
        else:
            for inner in ("type", "items", "values"):
                yield from _fields(declared.get(inner), path, is_key=is_key)


_RECORDS = ("record", "error")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_text(declared: object) -> str:
    match declared:
        case str():
            return declared
        case list():
            return " | ".join(_type_text(branch) for branch in declared)
        case dict():
            return _declared_type_text(declared)
        case _:
            return ""


def _declared_type_text(declared: Mapping[str, object]) -> str:
    match declared.get("type"):
        case "array":
            return f"array<{_type_text(declared.get('items'))}>"
        case "map":
            return f"map<{_type_text(declared.get('values'))}>"
        case "record" | "error" as kind:
            return f"{kind} {declared.get('name')}"
        case "enum":
            symbols = declared.get("symbols")
            listed = ", ".join(str(each) for each in symbols) if isinstance(symbols, list) else ""
            return f"enum {declared.get('name')} ({listed})"
        case "fixed":
            return f"fixed {declared.get('name')} ({declared.get('size')} bytes){_logical_text(declared)}"
        case inner:
            return f"{_type_text(inner)}{_logical_text(declared)}"


def _logical_text(declared: Mapping[str, object]) -> str:
    match declared.get("logicalType"):
        case None:
            return ""
        case "decimal":
            return f"/decimal({declared.get('precision')},{declared.get('scale', 0)})"
        case logical:
            return f"/{logical}"
