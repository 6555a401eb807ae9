"""What a schema change does to a table that is there: statements, what must be true first, and whom it disturbs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.core.errors import FULL_REFRESH
from penstock.core.warehouse.attributes import Attributes
from penstock.core.warehouse.columns import stopped
from penstock.core.warehouse.target_table import LogPlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.errors import TableStoppedError
    from penstock.core.tables import TableSchema


@dataclass(frozen=True, slots=True)
class Check:
    """A query that finds a row which cannot stay as it is, at most one: its key, then its value in `column`."""

    query: str
    column: str
    reason: str
    hint: str = f"the source has another value there: correct the row in the target, or {FULL_REFRESH}"

    def refusal(self, schema: TableSchema, row: Sequence[object]) -> TableStoppedError:
        """Return the error that names what the query found."""
        shown = ", ".join(repr(value) for value in row)
        return stopped(schema, self.column, f"{self.reason} ({shown})", self.hint)


@dataclass(frozen=True, slots=True)
class RetypedAhead:
    """A `column` that gets another `type`, as the dialect writes it, by a statement that runs in no transaction."""

    column: str
    type: str
    statement: str


@dataclass(frozen=True, slots=True)
class Migration:
    """Statements, in order; first, each of the `checks` must find nothing.

    `going`, `retyped` and `renamed` are the columns that go, get another type or
    another name, in small letters, and `is_remade` says that the table is made
    anew. What is `ahead` comes before the transaction, and does no harm if nothing
    follows.
    """

    statements: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    ahead: tuple[RetypedAhead, ...] = ()
    going: frozenset[str] = frozenset()
    retyped: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    is_remade: bool = False

    @property
    def all_statements(self) -> tuple[str, ...]:
        """All of them, in the order in which they run."""
        return (*(each.statement for each in self.ahead), *self.statements)

    def check_dependents(self, schema: TableSchema, dependents: Sequence[Dependent]) -> None:
        """Raise TableStoppedError, which names them, where some would break or stand in the way."""
        minding = sorted(dependent.name for dependent in dependents if dependent.minds(self))
        if minding:
            reason = f"its change would break, or is hindered by, what depends on it: {', '.join(minding)}"
            hint = "drop these, and make them again when the table has gone on"
            raise stopped(schema, "", reason, hint)


@dataclass(frozen=True, slots=True)
class Dependent:
    """What reads a table or hangs on it, as people call it (`view shop.report`), and of which columns it is.

    A `bound view` is of this very table, and of these columns with these types;
    a `view` looks for names whenever it is read. An `index` hinders changes in
    place where it is made for some warehouses, and is made again with the table.
    """

    name: str
    kind: Literal["bound view", "view", "index"]
    columns: frozenset[str]

    def minds(self, change: Migration) -> bool:
        """Whether it stands in the way."""
        columns = {name.casefold() for name in self.columns}
        match self.kind:
            case "bound view":
                return change.is_remade or bool(columns & (change.going | change.retyped))
            case "view":
                return bool(columns & (change.going | change.renamed))
            case "index":
                return not change.is_remade and bool(change.going | change.retyped | change.renamed)


@dataclass(frozen=True, slots=True)
class Around:
    """What a migration depends on beside the two schemas.

    `place` is where the source made the change, `has_rows` whether the table has
    any, `attributes` what a table that is made anew gets again. `renames_are_told`:
    who asks knows of them, and columns that got other names have these already.
    `stays_put` says that the table cannot be altered in its place, whatever is to change.
    """

    place: LogPlace = field(default_factory=lambda: LogPlace("", 0, 0, 0))
    has_rows: bool = True
    attributes: Attributes = field(default_factory=Attributes)
    renames_are_told: bool = False
    stays_put: bool = False
