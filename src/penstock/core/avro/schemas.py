"""The Avro schemas of a table's messages, and the table read back from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.avro.column_types import avro_type, column_type, type_attributes
from penstock.core.avro.defaults import avro_default
from penstock.core.avro.json_values import JsonObject, JsonValue, refuse, render
from penstock.core.avro.names import avro_name, avro_namespace
from penstock.core.errors import TableStoppedError
from penstock.core.tables import Column, TableId, TableSchema, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Sequence

_NULLABLE_TEXT: Sequence[JsonValue] = ("null", "string")
BEFORE_LACKS: Final = "before_lacks"
AFTER_LACKS: Final = "after_lacks"
_NUMBER: Final = "penstock.number"
_PUBLISHED: Final = "penstock.published"
_PARTITIONS: Final = "penstock.partitions"
_PARTITION_FILES: Final = "penstock.partition_files"
_GENERATED_TO: Final = "penstock.generated_to"
_MODIFIERS: Final = "penstock.modifiers"
_PUBLICATION_ALTERED_BY: Final = "penstock.publication_altered_by"
_SOURCE_FIELDS: Sequence[tuple[str, JsonValue]] = (
    ("version", "string"),
    ("connector", "string"),
    ("name", "string"),
    ("ts_ms", "long"),
    ("db", "string"),
    ("table", "string"),
    ("server_id", "long"),
    ("gtid", _NULLABLE_TEXT),
    ("file", "string"),
    ("pos", "long"),
    ("row", "int"),
)


def key_schema(schema: TableSchema) -> str | None:
    """Return the schema (JSON text) of a message's key, None where the table has no primary key.

    It says names and Avro types and nothing else: the schema's id is part of the
    key's bytes, so a longer VARCHAR or a new comment must not give another one.
    Raises TableStoppedError as `value_schema` does.
    """
    if not schema.key:
        return None
    _require_supported(schema)
    fields = [_key_field(schema.column(name)) for name in schema.key]
    return render({"type": "record", "name": "Key", "namespace": avro_namespace(schema.table), "fields": fields})


def value_schema(schema: TableSchema) -> str:
    """Return the schema (JSON text) of a message's value: the envelope, with Debezium's field names.

    Equal tables give equal text. The record `Value` is the row, in column order;
    attributes that begin with `penstock.` keep what Avro cannot say. With
    partial rows two fields more name the columns that a row image lacks, as a JSON
    list in a text, null where it is whole; what it lacks is null there.
    Raises TableStoppedError for a column whose type cannot be carried.
    """
    _require_supported(schema)
    source = {"type": "record", "name": "Source", "fields": [_plain_field(*field) for field in _SOURCE_FIELDS]}
    fields: list[JsonValue] = [
        {"name": "before", "type": ["null", _row_record(schema)], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    if schema.partial_rows:
        fields += [_plain_field(name, _NULLABLE_TEXT) for name in (BEFORE_LACKS, AFTER_LACKS)]
    return render({"type": "record", "name": "Envelope", "namespace": avro_namespace(schema.table), "fields": fields})


def table_schema(value_schema_json: str) -> TableSchema:
    """Return the table whose `value_schema` is `value_schema_json`; PenstockError if Penstock did not write it."""
    row = _row_of(JsonObject.parse(value_schema_json))
    return TableSchema(
        TableId(row.text("penstock.schema"), row.text("penstock.table")),
        tuple(_column(field) for field in row.objects("fields")),
        row.texts("penstock.key"),
        row.optional_text("doc") or "",
        row.flag("penstock.partial_rows"),
        _number_of(row),
        _number_of(row, _PUBLISHED),
        _number_of(row, _PARTITIONS),
        _number_of(row, _PUBLICATION_ALTERED_BY),
        _number_of(row, _PARTITION_FILES),
        _number_of(row, _GENERATED_TO),
        row.texts(_MODIFIERS) if _MODIFIERS in row.fields else (),
    )


def _require_supported(schema: TableSchema) -> None:
    for column in schema.columns:
        if isinstance(column.type, UnsupportedType):
            raise TableStoppedError(
                str(schema.table),
                column.name,
                "the registration of its schema",
                f"this release cannot carry {column.type.declaration} exactly",
                "leave the table out of `tables`, or change the column to a type that the documentation lists",
            )


def _row_record(schema: TableSchema) -> JsonValue:
    documented: dict[str, JsonValue] = {"doc": schema.comment} if schema.comment else {}
    return {
        "type": "record",
        "name": "Value",
        **documented,
        "penstock.schema": schema.table.schema,
        "penstock.table": schema.table.name,
        "penstock.key": schema.key,
        **({"penstock.partial_rows": True} if schema.partial_rows else {}),
        **_number(schema.number),
        **_number(schema.published, _PUBLISHED),
        **_number(schema.partitions, _PARTITIONS),
        **_number(schema.publication_altered_by, _PUBLICATION_ALTERED_BY),
        **_number(schema.partition_files, _PARTITION_FILES),
        **_number(schema.generated_to, _GENERATED_TO),
        **({_MODIFIERS: schema.modifiers} if schema.modifiers else {}),
        "fields": [_row_field(*each) for each in zip(schema.columns, schema.image_columns, strict=True)],
    }


def _row_field(column: Column, in_image: Column) -> JsonValue:
    type_ = avro_type(column.type)
    field: dict[str, JsonValue] = {"name": avro_name(column.name)}
    field["type"] = ["null", type_] if in_image.nullable else type_
    if column.comment:
        field["doc"] = column.comment
    field |= avro_default(in_image)
    if in_image.nullable != column.nullable:
        field["penstock.not_null"] = True
    field |= _name_attribute(column)
    field |= type_attributes(column.type)
    if column.declaration:
        field["penstock.declaration"] = column.declaration
    if column.default is not None:
        field["penstock.default"] = column.default
    if column.default_is_expression:
        field["penstock.default_is_expression"] = True
    if column.filled is not None:
        field["penstock.filled"] = column.filled
    return field | _number(column.number)


def _key_field(column: Column) -> JsonValue:
    return {"name": avro_name(column.name), "type": avro_type(column.type)} | _name_attribute(column)


def _name_attribute(column: Column) -> dict[str, JsonValue]:
    return {} if avro_name(column.name) == column.name else {"penstock.name": column.name}


def _plain_field(name: str, type_: JsonValue) -> JsonValue:
    # Avro wants the default of a union to be of its first branch.
    return {"name": name, "type": type_} | ({"default": None} if type_ == _NULLABLE_TEXT else {})


def _row_of(envelope: JsonObject) -> JsonObject:  # noqa: RET503 - refuse() does not return
    for field in envelope.objects("fields"):
        if field.text("name") == "before":
            for branch in field.items("type"):
                if branch != "null":
                    return JsonObject.of(branch, "the row in before")
    refuse("it has no row in a field called before")


def _column(field: JsonObject) -> Column:
    return Column(
        name=field.optional_text("penstock.name") or field.text("name"),
        type=column_type(field),
        nullable=isinstance(field.fields.get("type"), list) and not field.flag("penstock.not_null"),
        declaration=field.optional_text("penstock.declaration") or "",
        default=field.optional_text("penstock.default"),
        default_is_expression=field.flag("penstock.default_is_expression"),
        comment=field.optional_text("doc") or "",
        number=_number_of(field),
        filled=field.optional_text("penstock.filled"),
    )


def _number(number: int, name: str = _NUMBER) -> dict[str, JsonValue]:
    return {name: number} if number else {}


def _number_of(described: JsonObject, name: str = _NUMBER) -> int:
    return described.integer(name) if name in described.fields else 0
