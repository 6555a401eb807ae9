"""Foreign keys by which the server changes rows that no statement names.

Source: MariaDB Knowledge Base, "Foreign Keys"; MySQL Reference Manual, "FOREIGN KEY Constraints".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.mysql.sql_tokens import TokenReader, read_tokens
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_RULES = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key of `child` that says CASCADE or SET NULL: rows of it change when those of `parent` do."""

    child: TableId
    name: str
    parent: TableId


def cascades_of(child: TableId, create: str) -> Sequence[Cascade]:
    """Read those that the SHOW CREATE TABLE statement of `child` has."""
    reader = TokenReader(read_tokens(create))
    found = []
    while reader.seek("CONSTRAINT"):
        name = reader.take_identifier()
        if not reader.skip("FOREIGN", "KEY") or not reader.seek("REFERENCES"):
            continue
        parent = reader.take_table()
        if name is not None and parent is not None and _read_changes(reader):
            found.append(Cascade(child, name, TableId(parent[0] or child.schema, parent[1])))
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


def _read_changes(reader: TokenReader) -> bool:
    """Step over the columns of the parent and what the key says of DELETE and UPDATE; True if it changes rows."""
    changes = False
    reader.seek(")")
    while reader.skip("ON"):
        reader.at += 1
        rules = [rule for rule in _RULES if reader.skip(*rule)]
        changes = changes or bool(rules)
        if not rules:
            # RESTRICT or NO ACTION.
            reader.at += 2 if reader.peek() == "NO" else 1
    return changes
