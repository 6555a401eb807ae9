"""Foreign keys by which the server changes rows that no statement names.

Source: MariaDB Knowledge Base, "Foreign Keys"; MySQL Reference Manual, "FOREIGN KEY Constraints".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.core.mysql.statements.sql_tokens import TokenReader, read_tokens
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_RULES = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


@dataclass(frozen=True, slots=True)
class Step:
    """What rows of a parent set off by a foreign key, as they were deleted or changed in what it refers to.

    `is_direct` where the log has these rows of the parent, and another foreign key did not change them.
    """

    cascade: Cascade
    verb: Literal["DELETE", "UPDATE"]
    is_direct: bool

    @property
    def rule(self) -> str:
        """What becomes of the child's rows."""
        return self.cascade.on_delete if self.verb == "DELETE" else self.cascade.on_update

    def touches(self, columns: Collection[str]) -> bool:
        """Whether it sets anything off where `columns` of the parent changed."""
        is_touched = self.verb == "DELETE" or not set(columns).isdisjoint(self.cascade.parent_columns)
        return bool(self.rule) and is_touched


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key of `child` that says CASCADE or SET NULL: rows of it change when those of `parent` do.

    `columns` are those of the child, `parent_columns` what they refer to. `on_delete`
    and `on_update` are what it says, "" where it leaves the child's rows alone.
    """

    child: TableId
    name: str
    parent: TableId
    columns: tuple[str, ...] = ()
    parent_columns: tuple[str, ...] = ()
    on_delete: str = ""
    on_update: str = ""


@dataclass(frozen=True, slots=True)
class KeysAbove:
    """What a source shows of the foreign keys by which rows of some tables change with those of others, at any remove.

    `hidden` are tables that may be there without our seeing what they hang on, each with what to do, such as a GRANT.
    """

    cascades: tuple[Cascade, ...] = ()
    hidden: Mapping[TableId, str] = field(default_factory=dict)


def cascades_of(child: TableId, create: str) -> Sequence[Cascade]:
    """Read those that the SHOW CREATE TABLE statement of `child` has."""
    reader = TokenReader(read_tokens(create))
    found = []
    while reader.seek("CONSTRAINT"):
        name = reader.take_identifier()
        if not reader.skip("FOREIGN", "KEY"):
            continue
        columns = _take_columns(reader)
        if not reader.seek("REFERENCES"):
            continue
        parent = reader.take_table()
        parent_columns = _take_columns(reader)
        rules = _take_rules(reader)
        if name is not None and parent is not None and any(rules.values()):
            on_delete, on_update = rules.get("DELETE", ""), rules.get("UPDATE", "")
            parent_id = TableId(parent[0] or child.schema, parent[1])
            found.append(Cascade(child, name, parent_id, columns, parent_columns, on_delete, on_update))
    return found


def says_cascade(sql: str, sql_mode: int = 0) -> bool:
    """Whether a statement has a foreign key that says CASCADE or SET NULL, of a table or of a column."""
    reader = TokenReader(read_tokens(sql, sql_mode))
    while reader.seek("ON"):
        if reader.peek() in {"DELETE", "UPDATE"}:
            reader.at += 1
            if any(reader.skip(*rule) for rule in _RULES):
                return True
    return False


def with_children(tables: Collection[TableId], cascades: Sequence[Cascade]) -> set[TableId]:
    """Return `tables` and every table whose rows may change with theirs, at any remove."""
    reached, left = set(tables), list(tables)
    while left:
        parent = left.pop()
        more = {cascade.child for cascade in cascades if cascade.parent == parent} - reached
        reached |= more
        left += more
    return reached


def reached_by(
    deleted: Collection[TableId], updated: Mapping[TableId, Collection[str]], cascades: Sequence[Cascade]
) -> Sequence[Step]:
    """Return what rows that were `deleted` or `updated` set off, at any remove.

    `updated` has the columns that changed. What a key sets off goes on from there: a
    row that CASCADE deletes is deleted, one that it changes is changed in the key's columns.
    """
    found: dict[Step, None] = {}
    left: list[tuple[TableId, Literal["DELETE", "UPDATE"], Collection[str], bool]] = [
        *((table, "DELETE", (), True) for table in deleted),
        *((table, "UPDATE", columns, True) for table, columns in updated.items()),
    ]
    while left:
        table, verb, columns, is_direct = left.pop()
        for cascade in cascades:
            step = Step(cascade, verb, is_direct)
            if cascade.parent != table or step in found or not step.touches(columns):
                continue
            found[step] = None
            if (verb, step.rule) == ("DELETE", "CASCADE"):
                left.append((cascade.child, "DELETE", (), False))
            else:
                left.append((cascade.child, "UPDATE", cascade.columns, False))
    return list(found)


def _take_columns(reader: TokenReader) -> tuple[str, ...]:
    """The names between two parentheses, which stand here."""
    names: list[str] = []
    if reader.skip("("):
        while (name := reader.take_identifier()) is not None:
            names.append(name)
            reader.skip(",")
        reader.skip(")")
    return tuple(names)


def _take_rules(reader: TokenReader) -> dict[str, str]:
    """What a key says of DELETE and UPDATE: CASCADE and the like, "" for what changes no rows."""
    found: dict[str, str] = {}
    while reader.skip("ON"):
        verb = reader.peek()
        reader.at += 1
        rule = next((" ".join(rule) for rule in _RULES if reader.skip(*rule)), "")
        found[verb] = rule
        if not rule:
            # RESTRICT or NO ACTION.
            reader.at += 2 if reader.peek() == "NO" else 1
    return found
