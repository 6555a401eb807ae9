"""From a relation message and the catalog to the shape of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.postgres.bad_values import BadValueError
from penstock.core.postgres.catalog import CatalogColumn
from penstock.core.postgres.partitions import files_number, partitions_number
from penstock.core.postgres.types import column_type, declaration, find_type, unsaid_modifier
from penstock.core.postgres.values import value_reader
from penstock.core.tables import BytesType, Column, IntegerType, PrintedType, TableId, TableSchema, TimestampType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.postgres.catalog import CatalogTable
    from penstock.core.postgres.messages import Relation
    from penstock.core.postgres.types import SpecialValues, TypeInfo
    from penstock.core.postgres.values import Reader
    from penstock.core.tables import ColumnType


HAS_LEFT: Final = -1
"""Stands for a place in the publication that was gone when somebody first asked for it."""


def table_schema(
    relation: Relation,
    catalog: CatalogTable | None,
    types: Mapping[int, TypeInfo],
    known: TableSchema | None = None,
    special: SpecialValues = "stop",
) -> TableSchema:
    """Return the table that `relation` describes.

    The log says what columns and types there are, and what the replica identity is. It does not say which column is
    which after a rename, the order of a key, defaults and comments: these are the catalog's, which may be newer
    (`catalog` is None for a table that is gone), or `known`, what the table was before. Columns outside the key may be
    NULL, as nobody knows what was NOT NULL then.
    """
    key = _key(relation, catalog, known)
    listed = _catalog_columns(relation, catalog, known)
    before = {column.name: column for column in known.columns} if known else {}
    numbered = {column.number: column for column in known.columns if column.number} if known else {}
    last = max((known.generated_to, *numbered)) if known else 0
    columns = []
    for each, found in zip(relation.columns, listed, strict=True):
        was = numbered.get(found.number) if found else before.get(each.name)
        found_type = find_type(each.type_oid, each.modifier, types)
        carried = column_type(found_type, special)
        default, is_unknown = was.default if was else None, False
        if was is None and known is not None:
            default, is_unknown = _default_of_added(found, value_reader(found_type, carried, types), carried, last)
        columns.append(
            Column(
                name=each.name,
                type=carried,
                nullable=each.name not in key,
                declaration=declaration(found_type),
                default=default,
                default_is_expression=is_unknown,
                comment=found.comment if found else was.comment if was else "",
                number=found.number if found else was.number if was else 0,
            )
        )
    schema = TableSchema(
        TableId(relation.schema, relation.name),
        tuple(columns),
        key,
        comment=catalog.comment if catalog else known.comment if known else "",
        partial_rows=bool(key),
        number=relation.oid,
        published=_published(catalog, known),
        modifiers=_modifiers(relation, columns, types),
    )
    return _numbered(schema, catalog, known)


def _numbered(schema: TableSchema, catalog: CatalogTable | None, known: TableSchema | None) -> TableSchema:
    schema = schema if catalog is None else _as_it_is(schema, catalog)
    return schema if known is None else as_it_began(schema, known)


def _modifiers(relation: Relation, columns: Sequence[Column], types: Mapping[int, TypeInfo]) -> tuple[str, ...]:
    """Return the modifiers that declarations leave out: see TableSchema."""
    found = (
        (column.number, unsaid_modifier(find_type(each.type_oid, each.modifier, types)))
        for each, column in zip(relation.columns, columns, strict=True)
    )
    return tuple(f"{number}:{modifier}" for number, modifier in found if number and modifier is not None)


def _as_it_is(schema: TableSchema, catalog: CatalogTable) -> TableSchema:
    """Return `schema` with the catalog's numbers of what is not in the log."""
    schema = replace(
        schema,
        publication_altered_by=catalog.publication_altered_by,
        generated_to=max((column.number for column in catalog.generated), default=0),
    )
    if catalog.partitions is None:
        return schema
    partitions, files = partitions_number(catalog.partitions), files_number(catalog.partitions)
    return replace(schema, partitions=partitions, partition_files=files)


def as_it_began(schema: TableSchema, before: TableSchema) -> TableSchema:
    """Return `schema` with the numbers of what is not in the log, as they were when the rows of `before` were read.

    They stay until the rows are read again, whatever the table is called by then: a number of now would say that
    nothing has happened since. Where `before` has none, those of `schema` begin.
    """
    return replace(
        schema,
        partitions=before.partitions or schema.partitions,
        partition_files=before.partition_files or schema.partition_files,
        publication_altered_by=before.publication_altered_by or schema.publication_altered_by,
        generated_to=max(before.generated_to, schema.generated_to),
    )


def _published(catalog: CatalogTable | None, known: TableSchema | None) -> int:
    """Return the number of the table's place in the publication; the log has its rows, whatever the catalog says now.

    A table that has left since stays as it was: should it come back, its number is another one.
    """
    now = catalog.published if catalog else None
    return now if now is not None else known.published if known else HAS_LEFT


def _default_of_added(
    found: CatalogColumn | None, read: Reader, carried: ColumnType, last: int
) -> tuple[str | None, bool]:
    """Return what rows have that were there before the column was added, and whether that is not known.

    A column whose number is not behind the `last` one was there before, and the source generated its values.
    """
    was_there = found is not None and 0 < found.number <= last
    if found is None or was_there or found.default is None:
        return None, found is None or was_there or found.is_computed
    try:
        value = read(found.default.encode())
    except BadValueError:
        return None, True
    match carried:
        case BytesType():
            # How it is printed is not how other databases read it.
            return None, True
        case IntegerType() | PrintedType():
            return str(value), False
        case TimestampType():
            # Defaults of moments are in UTC, and do not say so.
            return found.default.removesuffix("+00"), False
        case _:
            return found.default, False


def _key(relation: Relation, catalog: CatalogTable | None, known: TableSchema | None) -> tuple[str, ...]:
    """Return the columns that tell rows apart: those of the replica identity, else those of the primary key.

    Of a table whose rows are logged whole the log does not say what its primary key is: the catalog does.
    """
    names = {column.name for column in relation.columns}
    orders = [known.key if known else (), catalog.key if catalog else ()]
    if relation.identity in {"d", "i"}:
        identity = tuple(column.name for column in relation.columns if column.in_identity)
        return next((order for order in orders if set(order) == set(identity)), identity)
    if catalog is not None and names.issuperset(catalog.key):
        return catalog.key
    return next((order for order in orders if order and names.issuperset(order)), ())


def _catalog_columns(
    relation: Relation, catalog: CatalogTable | None, known: TableSchema | None
) -> list[CatalogColumn | None]:
    """Return the catalog's column for each of the relation's; None where nobody can tell.

    The log lists columns by their numbers, new ones behind all others, and the catalog may be newer. So columns that
    are called as before, in the same order, are those from before, unless their numbers are gone: then they were
    dropped and added again. Else the catalog's names tell, and where it lacks one, the name from before.
    """
    if catalog is None:
        return [None] * len(relation.columns)
    names = [column.name for column in relation.columns]
    before = known.columns if known else ()
    if names[: len(before)] == [column.name for column in before]:
        kept = [_kept(column, catalog, before) for column in before]
        return [*kept, *_added(names[len(before) :], catalog, before)]
    by_name = {column.name: column for column in catalog.columns}
    by_old_name = {column.name: _kept(column, catalog, before) for column in before}
    found = [by_name.get(name) or by_old_name.get(name) for name in names]
    numbers = [column.number for column in found if column is not None]
    if numbers == sorted(set(numbers)) and len(numbers) == len(names):
        return found
    return list(catalog.columns) if len(catalog.columns) == len(names) else [None] * len(names)


def _kept(column: Column, catalog: CatalogTable, before: Sequence[Column]) -> CatalogColumn:
    """Return a column from before as the catalog has it, or as it was; another if it was dropped and added anew."""
    by_number = {each.number: each for each in catalog.columns}
    if column.number in by_number:
        return by_number[column.number]
    known = {each.number for each in before}
    again = (each for each in catalog.columns if each.name == column.name and each.number not in known)
    return next(again, CatalogColumn(column.number, column.name, column.comment))


def _added(names: Sequence[str], catalog: CatalogTable, before: Sequence[Column]) -> list[CatalogColumn | None]:
    """Return the catalog's columns for new ones; for those that are gone again, of which nobody asks, ones by name."""
    last = max((column.number for column in before), default=0)
    # In a publication with generated columns, they are what the catalog calls so.
    generated = [column for column in catalog.generated if column.name in names]
    newer = {column.name: column for column in (*catalog.columns, *generated) if column.number > last}
    dropped = [number for number in catalog.dropped if number > last]
    lacking = [name for name in names if name not in newer]
    renamed = [column for name, column in newer.items() if name not in names]
    if dropped or (not lacking and any(column.number < newer[name].number for column in renamed for name in names)):
        # Whatever names they have by now: with those that were dropped since, they are the first ones by number.
        there = {column.number: column for column in newer.values()}
        pairs = zip(names, sorted([*there, *dropped]), strict=False)
        found = [there.get(number, CatalogColumn(number, name)) for name, number in pairs]
        return [*found, *[None] * (len(names) - len(found))]
    if not lacking or not renamed:
        return [newer.get(name, CatalogColumn(0, name)) for name in names]
    if len(lacking) != len(renamed):
        return [newer.get(name) for name in names]
    newer |= dict(zip(lacking, renamed, strict=True))
    return [newer[name] for name in names]
