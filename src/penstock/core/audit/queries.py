"""The statements of an audit, which are the same in every database but for the names of functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.core.audit.minhash import MASK, MODULUS, coefficients
from penstock.core.audit.side import HASH_VALUES, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.core.audit.side import AuditColumn, AuditSide

RowKey: TypeAlias = tuple[str | None, ...]
Hashes: TypeAlias = bytes
"""Of the rows with one key, 16 bytes each, sorted: of several where a key is there several times."""
WORDS: Final = 4
_PARTS_MAX: Final = 128
_PART_KEYS_MIN: Final = 64
_SIGNATURES_PER_PARTITION: Final = 4
"""So many times the partitions that there may be are the parts."""
VALUE_CHARACTERS: Final = 200
"""So much of a value is shown."""
VALUE_PARTS: Final = 2
"""Columns of a query's result for each value."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a database computes of a partition.

    `low` and `high` are its least and greatest key, None if it has no order;
    `minima` are MinHash values, none until they were asked for.
    """

    count: int
    sums: tuple[int, ...]
    minima: tuple[int, ...] = ()
    low: str | None = None
    high: str | None = None

    def equals(self, other: Signature) -> bool:
        """Whether the rows are the same, as counts and sums tell."""
        return (self.count, self.sums) == (other.count, other.sums)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Values of `AuditSide.key_value` from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Within:
    """Some partitions, all of which are `width` wide; None is that of rows without a key."""

    partitions: tuple[int | None, ...]
    width: int


def extremes_query(side: AuditSide) -> str:
    """Return the query for the least and the greatest key; `side.cut` is not hash."""
    value = side.key_value()
    least, greatest = (side.dialect.as_text.format(f"{name}({value})") for name in ("MIN", "MAX"))
    return f"SELECT {least}, {greatest} FROM {side.rows}{_where(side)}"  # noqa: S608 - names are quoted


def count_query(side: AuditSide) -> str:
    """Return the query for how many rows there are."""
    return f"SELECT COUNT(*) FROM {side.rows}{_where(side)}"  # noqa: S608 - names are quoted


def signature_query(side: AuditSide, width: int, within: Within | None) -> str:
    """Return the query for the signatures of all partitions that are `width` wide, of rows `within` (None: of all).

    They have no MinHash values: these cost as much again, and equal partitions need none.
    """
    fence, as_text = side.dialect.fence, side.dialect.as_text.format
    key = "NULL" if side.cut == "hash" else side.key_value()
    listed = f"{side.partition(width)} AS p, {key} AS v, {side.row_hash()} AS h"
    hashed = f"SELECT {listed} FROM {side.rows}{_where(side, within)}{fence}"  # noqa: S608 - names are quoted
    listed = ", ".join([as_text("p"), "COUNT(*)", as_text("MIN(v)"), as_text("MAX(v)"), *_sums(side)])
    return f"SELECT {listed} FROM ({hashed}) AS r GROUP BY p"  # noqa: S608 - names are quoted


def read_signatures(rows: Iterable[Sequence[Any]]) -> dict[int | None, Signature]:
    """Return the signatures by the number of their partition, from what `signature_query` gave."""
    return {
        _number(number): Signature(int(count), tuple(map(int, sums)), (), low, high)
        for number, count, low, high, *sums in rows
    }


def minima_query(side: AuditSide, width: int, within: Within, k: int) -> str:
    """Return the query for `k` MinHash values of each partition, `width` wide, of rows `within`."""
    as_text = side.dialect.as_text.format
    listed = f"{side.partition(width)} AS p, {words(side.dialect, side.row_hash())[-1]} AS w"
    hashed = f"SELECT {listed} FROM {side.rows}{_where(side, within)}{side.dialect.fence}"  # noqa: S608 - names are quoted
    minima = [as_text(f"MIN(((w * {a} + {b}) % {MODULUS}) % {MASK + 1})") for a, b in coefficients(k)]
    return f"SELECT {', '.join([as_text('p'), *minima])} FROM ({hashed}) AS r GROUP BY p"  # noqa: S608 - names are quoted


def read_minima(rows: Iterable[Sequence[Any]]) -> dict[int | None, tuple[int, ...]]:
    """Return the MinHash values by the number of their partition, from what `minima_query` gave."""
    return {_number(number): tuple(map(int, minima)) for number, *minima in rows}


def rows_query(side: AuditSide, within: Within, width: int) -> str:
    """Return the query for the key's texts, the hash and the partition (of `width`) of each row `within`."""
    partition = side.dialect.as_text.format(side.partition(width))
    listed = ", ".join([*(side.text(column) for column in side.key), side.row_hash(), partition])
    return f"SELECT {listed} FROM {side.rows}{_where(side, within)}"  # noqa: S608 - names are quoted


def sums_query(side: AuditSide, keys: Sequence[RowKey]) -> str:
    """Return the query for the number and the sums, as of a signature, of the rows with one of `keys`."""
    where = _keys_where(side, keys)
    hashed = f"SELECT {side.row_hash()} AS h FROM {side.rows} WHERE {where}{side.dialect.fence}"  # noqa: S608 - names are quoted
    return f"SELECT COUNT(*), {', '.join(_sums(side))} FROM ({hashed}) AS r"  # noqa: S608 - as above


def read_sums(rows: Sequence[Sequence[Any]]) -> Signature:
    """Return what `sums_query` gave; of no rows, the sums are 0."""
    ((count, *sums),) = rows
    return Signature(int(count), tuple(int(each or 0) for each in sums))


def keys_query(side: AuditSide, keys: Sequence[RowKey], *, values: bool = False, more: Sequence[str] = ()) -> str:
    """Return the query for key and hash of the rows with one of `keys`; with `values` instead of the hash.

    `read_value` reads these. `more` are columns that follow. Where a database takes two keys for equal that are not,
    it may give others too.
    """
    listed = [side.text(column) for column in side.key]
    listed += [part for each in side.columns for part in _value_parts(side, each)] if values else [side.row_hash()]
    listed += [side.dialect.quoted(name) for name in more]
    return f"SELECT {', '.join(listed)} FROM {side.rows} WHERE {_keys_where(side, keys)}"  # noqa: S608 - names are quoted


def read_value(row: Sequence[Any], key: int, place: int) -> tuple[str | None, str | None]:
    """Return the value at `place` of a row that `keys_query` gave of a table with `key` key columns.

    That is the beginning of its text; and, for a text that is longer than that, its
    length in characters, a blank and its hash, else None: equal values give equal ones.
    """
    beginning, rest = row[key + place * VALUE_PARTS : key + (place + 1) * VALUE_PARTS]
    return None if beginning is None else str(beginning), None if rest is None else str(rest)


def ranges_of(partitions: Iterable[int], width: int) -> list[KeyRange]:
    """Return what some partitions hold, neighbours together."""
    ranges: list[KeyRange] = []
    for number in sorted(partitions):
        low, high = number * width, (number + 1) * width - 1
        if ranges and ranges[-1].high + 1 == low:
            ranges[-1] = KeyRange(ranges[-1].low, high)
        else:
            ranges.append(KeyRange(low, high))
    return ranges


@dataclass(frozen=True, slots=True)
class Cuts:
    """How wide partitions are, and of how many equal parts each is: the signatures of parts are asked for.

    `numbers` are all partitions with rows; None where hashes are cut, whose partitions no index finds.
    """

    width: int
    parts: int
    numbers: range | None = None

    @property
    def part_width(self) -> int:
        """How wide a part is."""
        return self.width // self.parts


def number_cuts(extremes: Sequence[tuple[str | None, str | None]], size: int, partitions_max: int) -> Cuts:
    """Cut a whole number: partitions of `size`, or more where there would be too many, with parts as there is room."""
    found = [int(each) for pair in extremes for each in pair if each is not None]
    low, high = (min(found), max(found)) if found else (0, 0)
    span = high - low + 1
    width = max(size, -(-span // partitions_max))
    parts = _parts(width, partitions_max * _SIGNATURES_PER_PARTITION // (-(-span // width)))
    return Cuts(width, parts, range(low // width, high // width + 1))


def hash_cuts(rows: int, size: int, partitions_max: int) -> Cuts:
    """Cut hashes, so that partitions have about `size` of `rows`."""
    partitions = min(max(1, -(-rows // size)), partitions_max)
    parts = _parts(size, partitions_max * _SIGNATURES_PER_PARTITION // partitions)
    # A multiple of the parts, so that none of them spans two partitions.
    return Cuts(-(-HASH_VALUES // (partitions * parts)) * parts, parts)


def merge_parts(signatures: Mapping[int | None, Signature], parts: int) -> dict[int | None, Signature]:
    """Return the signatures of partitions from those of their parts."""
    merged: dict[int | None, Signature] = {}
    for number, part in signatures.items():
        partition = None if number is None else number // parts
        merged[partition] = _merged(merged[partition], part) if partition in merged else part
    return merged


def _parts(size: int, parts_max: int) -> int:
    """Return in how many parts to cut: the most that divide `size` evenly, and have enough keys to be worth it."""
    most = min(_PARTS_MAX, parts_max, size // _PART_KEYS_MIN)
    return next((parts for parts in range(most, 1, -1) if size % parts == 0), 1)


def _merged(one: Signature, other: Signature) -> Signature:
    ends = [[int(each) for each in pair if each is not None] for pair in ((one.low, other.low), (one.high, other.high))]
    return Signature(
        one.count + other.count,
        tuple(map(sum, zip(one.sums, other.sums, strict=True))),
        (),
        str(min(ends[0])) if ends[0] else None,
        str(max(ends[1])) if ends[1] else None,
    )


def _sums(side: AuditSide) -> Sequence[str]:
    """The sums of the words of the hashes `h`, as texts."""
    return [side.dialect.as_text.format(f"SUM({word})") for word in words(side.dialect, "h")]


def _number(text: Any) -> int | None:  # noqa: ANN401 - whatever a driver gives
    return None if text is None else int(text)


def _where(side: AuditSide, within: Within | None = None) -> str:
    conditions = [side.where] if side.where else []
    if within is not None:
        conditions.append(f"({' OR '.join(_conditions(side, within))})")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _conditions(side: AuditSide, within: Within) -> Iterator[str]:
    """Yield ranges of the key where an index may serve them, else one look at each row, whatever the partitions."""
    value, numbers = side.key_value(), sorted(each for each in within.partitions if each is not None)
    ranges = ranges_of(numbers, within.width)
    if numbers and (side.cut == "hash" or (side.dialect.scans and len(ranges) > 1)):
        listed = f"{side.partition(within.width)} IN ({', '.join(map(str, numbers))})"
        whole = KeyRange(numbers[0] * within.width, (numbers[-1] + 1) * within.width - 1)
        # Stretches of a table without such keys need not be read.
        yield listed if side.cut == "hash" else f"({_in_range(value, whole)} AND {listed})"
    else:
        yield from (_in_range(value, each) for each in ranges)
    if None in within.partitions:
        yield f"{value} IS NULL"


def _in_range(value: str, wanted: KeyRange) -> str:
    return f"{value} BETWEEN {wanted.low} AND {wanted.high}"


def _value_parts(side: AuditSide, column: AuditColumn) -> tuple[str, str]:
    """What `read_value` reads: so much of a row travels at most, however long its values are."""
    text = side.text(column)
    digest = side.dialect.hashes["sha256"].format(text)
    count = side.dialect.characters.format(text)
    rest = side.dialect.joined((side.dialect.as_text.format(count), "' '", digest))
    return f"SUBSTR({text}, 1, {VALUE_CHARACTERS})", f"CASE WHEN {count} > {VALUE_CHARACTERS} THEN {rest} END"


def _keys_where(side: AuditSide, keys: Sequence[RowKey]) -> str:
    condition = _keys_condition(side, keys)
    return f"{side.where} AND ({condition})" if side.where else condition


def _keys_condition(side: AuditSide, keys: Sequence[RowKey]) -> str:
    numbers = [key[0] for key in keys if key[0] is not None]
    if len(side.key) == 1 and side.key[0].kind == "integer" and len(numbers) == len(keys):
        listed = ", ".join(numbers)
        name = side.dialect.quoted(side.key[0].name)
        return f"{name} IN ({side.dialect.number_list.format(listed) if side.cut == 'integer' else listed})"
    return " OR ".join(f"({_key_condition(side, key)})" for key in keys)


def _key_condition(side: AuditSide, key: RowKey) -> str:
    conditions = []
    for column, text in zip(side.key, key, strict=True):
        name = side.dialect.quoted(column.name)
        if text is None:
            conditions.append(f"{side.text(column)} IS NULL")
        elif column.kind in {"integer", "decimal"}:
            conditions.append(f"{name} = {text}")
        elif column.kind == "text":
            # An index serves the first condition, and the second one only what the first takes for equal.
            conditions.append(f"{_text_column(side, column)} = {_text_literal(side, column, text)}")
        elif column.kind == "bytes":
            conditions.append(f"{name} = {side.dialect.bytes_literal.format(text)}")
        else:
            conditions.append(f"{side.text(column)} = '{text}'")
    return " AND ".join(conditions)


def _text_column(side: AuditSide, column: AuditColumn) -> str:
    """ENUM, UUID and the like are texts only once they are written as such; on MySQL they compare with texts as is."""
    if not column.is_cast_text:
        return side.text(column)
    return side.dialect.text_cast.format(side.dialect.quoted(column.name))


def _text_literal(side: AuditSide, column: AuditColumn, text: str) -> str:
    in_hex = text.encode().hex()
    if not (column.collation and side.dialect.collated_literal):
        return side.dialect.text_literal.format(in_hex)
    charset, _, _ = column.collation.partition("_")
    return side.dialect.collated_literal.format(in_hex, charset, column.collation)


def index_by_key(rows: Iterable[Sequence[Any]], width: int) -> Mapping[RowKey, list[Sequence[Any]]]:
    """Return rows by their key, which is their first `width` columns: several, where a key is there several times."""
    found: dict[RowKey, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(tuple(None if each is None else str(each) for each in row[:width]), []).append(row)
    return found
