"""What belongs to a warehouse's table beside its columns and rows, so that one that is made anew gets it again.

Its owner, grants, comments, indexes and constraints, and in Redshift how its
rows are spread and sorted (Amazon Redshift Database Developer Guide, "CREATE
TABLE": DISTSTYLE, DISTKEY, SORTKEY).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.warehouse.dialect import Dialect, quote_name, quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_FIXED_ENCODINGS: Final = frozenset({"bytedict", "runlength", "text255", "text32k"})


@dataclass(frozen=True, slots=True)
class Grant:
    """`privilege` on the table, or on its `column` alone; `grantee` is quoted already, or PUBLIC."""

    privilege: str
    grantee: str
    column: str = ""
    grantable: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """An index or a constraint: `statement` makes it again, and it is about `columns`."""

    statement: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """How Redshift spreads and sorts the rows: DISTSTYLE, the column of KEY, and the sort key's style and columns.

    `encodings` are the ENCODE of columns: those that a table has, or those that somebody asks for. The columns
    `defaulted` have a DEFAULT, as those that were added to a table with rows.
    """

    style: str = "AUTO"
    key: str = ""
    sort_style: str = "COMPOUND"
    sort_key: tuple[str, ...] = ()
    encodings: Mapping[str, str] = field(default_factory=dict)
    defaulted: frozenset[str] = frozenset()

    def hinders(self, going: Collection[str], longer: Collection[str]) -> bool:
        """Whether any of these columns cannot go from the table, or get longer, in its place.

        They are in small letters. "ALTER TABLE": a column that is a key is not dropped, and one
        with some encodings, or a default, is not altered.
        """
        keys = {name.casefold() for name in (self.key, *self.sort_key)}
        fixed = {name.casefold() for name, encoding in self.encodings.items() if encoding in _FIXED_ENCODINGS}
        fixed |= {name.casefold() for name in self.defaulted}
        return not keys.isdisjoint(going) or not fixed.isdisjoint(longer)


@dataclass(frozen=True, slots=True)
class Attributes:
    """All that we keep. `columns` has every column that the table has now, `unkept` what we could not make again.

    `first_grantees` are those who may do something with a table as soon as it is made, quoted as in `Grant`.
    """

    columns: tuple[str, ...] = ()
    owner: str = ""
    comment: str = ""
    column_comments: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    first_grantees: tuple[str, ...] = ()
    indexes: tuple[Index, ...] = ()
    spread: Spread | None = None
    unkept: tuple[str, ...] = ()


def render_spread(dialect: Dialect, spread: Spread | None, columns: Collection[str]) -> str:
    """Return what follows the columns in CREATE TABLE; keys on columns that are not in `columns` are let go."""
    if spread is None:
        return ""
    there = {name.casefold() for name in columns}
    has_key = spread.style == "KEY" and spread.key.casefold() in there
    spread_by = f" DISTSTYLE KEY DISTKEY ({quote_name(dialect, spread.key)})" if has_key else ""
    if not has_key and spread.style != "KEY":
        spread_by = f" DISTSTYLE {spread.style}"
    if not spread.sort_key or not {name.casefold() for name in spread.sort_key} <= there:
        return spread_by
    return f"{spread_by} {spread.sort_style} SORTKEY ({', '.join(quote_name(dialect, n) for n in spread.sort_key)})"


def plan_attributes(dialect: Dialect, path: str, columns: Collection[str], kept: Attributes) -> Iterator[str]:
    """Yield the statements that give the table at `path`, which has `columns`, what another one had.

    The owner comes last: from then on the table may not be ours to alter.
    """
    there = {name.casefold() for name in columns}
    if kept.comment:
        yield f"COMMENT ON TABLE {path} IS {quote_text(kept.comment, dialect)}"
    for name, comment in kept.column_comments.items():
        if name.casefold() in there:
            yield f"COMMENT ON COLUMN {path}.{quote_name(dialect, name)} IS {quote_text(comment, dialect)}"
    for index in kept.indexes:
        if {name.casefold() for name in index.columns} <= there:
            yield index.statement
    for grantee in kept.first_grantees:
        yield f"REVOKE ALL ON TABLE {path} FROM {grantee}"
    for grant in kept.grants:
        if not grant.column or grant.column.casefold() in there:
            column = f" ({quote_name(dialect, grant.column)})" if grant.column else ""
            option = " WITH GRANT OPTION" if grant.grantable else ""
            yield f"GRANT {grant.privilege}{column} ON TABLE {path} TO {grant.grantee}{option}"
    if kept.owner:
        yield f"ALTER TABLE {path} OWNER TO {quote_name(dialect, kept.owner)}"
