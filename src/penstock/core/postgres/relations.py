"""From a relation message and the catalog to the shape of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.postgres.types import column_type, declaration, find_type
from penstock.core.tables import Column, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.postgres.catalog import CatalogColumn, CatalogTable
    from penstock.core.postgres.messages import Relation
    from penstock.core.postgres.types import SpecialValues, TypeInfo


def table_schema(
    relation: Relation,
    catalog: CatalogTable | None,
    types: Mapping[int, TypeInfo],
    known: TableSchema | None = None,
    special: SpecialValues = "stop",
) -> TableSchema:
    """Return the table that `relation` describes.

    The log says what columns and types there are, and what the replica identity is.
    It does not say which column is which after a rename, the order of a key, defaults
    and comments: these are the catalog's, which may be newer (`catalog` is None for a
    table that is gone), or `known`, what the table was before. Columns outside the
    key may be NULL, as nobody knows what was NOT NULL then.
    """
    key = _key(relation, catalog, known)
    listed = _catalog_columns(relation, catalog, known)
    before = {column.name: column for column in known.columns} if known else {}
    numbered = {column.number: column for column in known.columns if column.number} if known else {}
    columns = []
    for each, found in zip(relation.columns, listed, strict=True):
        was = numbered.get(found.number) if found else before.get(each.name)
        found_type = find_type(each.type_oid, each.modifier, types)
        columns.append(
            Column(
                name=each.name,
                type=column_type(found_type, special),
                nullable=each.name not in key,
                declaration=declaration(found_type),
                default=was.default if was else _default(found, known),
                default_is_expression=was is None and known is not None and (found is None or found.is_computed),
                comment=found.comment if found else was.comment if was else "",
                number=found.number if found else was.number if was else 0,
            )
        )
    return TableSchema(
        TableId(relation.schema, relation.name),
        tuple(columns),
        key,
        comment=catalog.comment if catalog else known.comment if known else "",
        partial_rows=bool(key),
        number=relation.oid,
    )


def _default(found: CatalogColumn | None, known: TableSchema | None) -> str | None:
    """What rows have that were there before the column was added: there are none of a table that is new."""
    return found.default if found is not None and known is not None else None


def _key(relation: Relation, catalog: CatalogTable | None, known: TableSchema | None) -> tuple[str, ...]:
    """Return the columns that tell rows apart: those of the replica identity, else those of the primary key."""
    names = {column.name for column in relation.columns}
    orders = [known.key if known else (), catalog.key if catalog else ()]
    if relation.identity in {"d", "i"}:
        identity = tuple(column.name for column in relation.columns if column.in_identity)
        return next((order for order in orders if set(order) == set(identity)), identity)
    return next((order for order in orders if order and names.issuperset(order)), ())


def _catalog_columns(
    relation: Relation, catalog: CatalogTable | None, known: TableSchema | None
) -> list[CatalogColumn | None]:
    """Return the catalog's column for each of the relation's; None where there is none, or nobody can tell.

    The log lists columns by their numbers. So those that are called as before are those from before, whatever
    the catalog calls them by now, unless their numbers are gone: then they were dropped and added again.
    """
    if catalog is None:
        return [None] * len(relation.columns)
    by_name = {column.name: column for column in catalog.columns}
    names = [column.name for column in relation.columns]
    if known is not None and [column.name for column in known.columns] == names:
        by_number = {column.number: column for column in catalog.columns}
        return [
            by_number.get(column.number) or _unless_known(by_name.get(column.name), known) for column in known.columns
        ]
    named = [by_name.get(name) for name in names]
    numbers = [column.number for column in named if column is not None]
    if numbers == sorted(numbers) and len(numbers) == len(names):
        return named
    # The catalog has other names by now, or other columns.
    if len(catalog.columns) == len(names):
        return list(catalog.columns)
    return [None] * len(names)


def _unless_known(column: CatalogColumn | None, known: TableSchema) -> CatalogColumn | None:
    """Leave out a column that got the name of another one since."""
    return None if column is None or any(column.number == each.number for each in known.columns) else column
