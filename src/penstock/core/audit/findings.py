"""What an audit found of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from penstock.core.audit.minhash import matching_share
from penstock.core.audit.repair import RepairKeys
from penstock.core.audit.scores import Score, Share, margin, table_score
from penstock.core.audit.suspects import RowCounts
from penstock.core.errors import ReplicaLagError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.core.audit.queries import Hashes, RowKey, Signature
    from penstock.core.audit.suspects import Suspects
    from penstock.core.errors import PenstockError

RowState: TypeAlias = Literal["missing", "extra", "different"]
Stage: TypeAlias = Literal["topic", "files", "landing", "target"]
TableState: TypeAlias = Literal["equal", "different", "lagging", "not compared", "not reached", "failed"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What signatures tell of a table. `unequal` has the signatures of both sides by partition.

    `not_narrowed` are partitions of `unequal` whose rows nobody looked at: there were too many.
    Of these there are MinHash values, of others only where scores are wanted to come from them.
    """

    equal: int
    unequal: Mapping[int | None, tuple[Signature, Signature]]
    suspects: Suspects
    not_narrowed: frozenset[int | None] = frozenset()
    source_rows: int = 0
    target_rows: int = 0


@dataclass(frozen=True, slots=True)
class DivergentRow:
    """A row that is wrong in the target. `columns` has the texts of both sides where they differ."""

    key: RowKey
    state: RowState
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamedRows(Sequence[DivergentRow]):
    """The rows that are named: first those with values, and those that are made when they are asked for."""

    valued: tuple[DivergentRow, ...]
    others: Suspects

    def __len__(self) -> int:
        """How many there are."""
        return len(self.valued) + len(self.others)

    def __iter__(self) -> Iterator[DivergentRow]:
        """One by one."""
        yield from self.valued
        for each in self.others:
            yield DivergentRow(each.key, row_state(each.source, each.target))

    @overload
    def __getitem__(self, place: int) -> DivergentRow: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[DivergentRow]: ...

    def __getitem__(self, place: int | slice) -> DivergentRow | Sequence[DivergentRow]:
        """One of them, or some."""
        return tuple(self)[place]


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A column that was left out, and why.

    `is_wrong`: the two tables differ in it, and nobody wanted them to. `is_wanted`: the pipeline's file says so.
    """

    column: str
    why: str
    is_wrong: bool = False
    is_wanted: bool = False


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The newest message of a row's key. `position` is its place in the source's log, "" where only a file is left."""

    topic: str
    partition: int
    offset: int
    position: str
    op: str


@dataclass(frozen=True, slots=True)
class StagedRow:
    """A row that is wrong somewhere. Nothing is known of it in the stages `unknown_in`, which are before `first_wrong`.

    `message` is None where neither topic nor files have one of it any more.
    """

    key: RowKey
    first_wrong: Stage
    unknown_in: tuple[Stage, ...] = ()
    message: LastMessage | None = None


@dataclass(frozen=True, slots=True)
class TableFindings:
    """One table's part of a report. `score` is None where nothing could be said.

    `rows` are the first of `wrong_rows`. `in_flight` counts rows that changed all the while they were looked at, so
    that nothing is known of them; `not_narrowed` partitions of which no rows are named.
    `repair_keys` are the keys of `rows`; nobody is shown them.
    `stages` is None unless the stages before the target were audited, too.
    """

    table: str
    state: TableState
    score: Score | None = None
    equal: int = 0
    unequal: int = 0
    source_rows: int = 0
    target_rows: int = 0
    key: tuple[str, ...] = ()
    rows: Sequence[DivergentRow] = ()
    wrong_rows: int = 0
    in_flight: int = 0
    not_narrowed: int = 0
    not_compared: tuple[NotCompared, ...] = ()
    why: str = ""
    repair_keys: RepairKeys = field(default_factory=RepairKeys)
    position: str = ""
    seconds: float = 0.0
    stages: StagesFound | None = None

    @property
    def columns_missed(self) -> int:
        """How many columns were left out though nobody wanted them to be."""
        return sum(not each.is_wanted for each in self.not_compared)

    @property
    def note(self) -> str:
        """`why`, which stages differ, and how many columns were missed; "" for nothing to say."""
        wrong = () if self.stages is None else self.stages.wrong
        verb = "differs" if len(wrong) == 1 else "differ"
        between = f"its {' and '.join(wrong)} {verb} from the source" if wrong else ""
        missed = self.columns_missed
        counted = f"{missed} {'column is' if missed == 1 else 'columns are'} not compared" if missed else ""
        return "; ".join(part for part in (self.why, between, counted) if part)


@dataclass(frozen=True, slots=True)
class StagesFound:
    """A table by stage: `stages` has the findings of those before the target, `rows` what is wrong in any of them."""

    stages: tuple[tuple[Stage, TableFindings], ...] = ()
    rows: tuple[StagedRow, ...] = ()

    @property
    def wrong(self) -> tuple[Stage, ...]:
        """The stages before the target that differ from the source."""
        return tuple(stage for stage, found in self.stages if found.state == "different")


def unread(table: str, error: PenstockError) -> TableFindings:
    """What is told of a table that `error` kept from being compared."""
    state: TableState = "lagging" if isinstance(error, ReplicaLagError) else "failed"
    return TableFindings(table, state, why=f"{error.message}; what to do: {error.hint}")


def row_state(source: Hashes, target: Hashes) -> RowState:
    """Say what is wrong with a row whose hashes differ."""
    if not target:
        return "missing"
    return "different" if source else "extra"


def score_of(comparison: Comparison, wrong: Suspects, open_: Suspects, k: int) -> tuple[Score, int]:
    """Return the score once suspects were looked at again, and how many partitions are still unequal.

    A partition all of whose suspects turned out to be the same on both sides is
    equal. Rows are counted where all that differ are known, but by MinHash values
    where there are any, unless these are of rows in flight.
    """
    left = dict.fromkeys(comparison.not_narrowed, RowCounts())
    for counted in (wrong.counted(), open_.counted()):
        left |= {partition: left.get(partition, RowCounts()).plus(each) for partition, each in counted.items()}
    found = comparison.suspects.counted()
    mixed = {each for each in found if left.get(each, RowCounts()).keys < found[each].keys} - comparison.not_narrowed
    cleared = mixed - left.keys()
    shares = []
    for partition, (source, target) in comparison.unequal.items():
        if partition in cleared:
            continue
        if partition in mixed or not (source.minima or target.minima):
            shares.append(_counted_share(source, left.get(partition, RowCounts())))
        else:
            shares.append(Share(matching_share(source.minima, target.minima), margin(k)))
    equal = comparison.equal + len(comparison.unequal) - len(shares)
    return table_score(equal, shares), len(shares)


def _counted_share(source: Signature, wrong: RowCounts) -> Share:
    """Return the Jaccard similarity of the rows of a partition, of which those that are wrong are known."""
    common = max(0, source.count - wrong.source)
    return Share(common / max(1, common + wrong.source + wrong.target), 0.0)
