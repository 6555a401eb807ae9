"""Conditions: what they mean is what SQL means, and each mistake is told with its place."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_schema
from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
)
from penstock.core.transforms.conditions import Both, Comparison, Constant, Name, parse_condition
from penstock.core.transforms.filters import Filter

TYPES: dict[str, ColumnType] = {
    "id": IntegerType(32, unsigned=False),
    "n": IntegerType(16, unsigned=False),
    "u": IntegerType(64, unsigned=True),
    "m": DecimalType(8, 2),
    "f": FloatType(64),
    "t": TextType(20, "utf8mb4"),
    "e": EnumType(("a", "b")),
    "day": DateType(),
    "seen": DateTimeType(6),
}
SCHEMA = TableSchema(
    TableId("shop", "orders"),
    tuple(Column(name, type_, nullable=name != "id") for name, type_ in TYPES.items()),
    ("id",),
)
DUCKDB = duckdb.connect()
TEXTS = st.text("ab%_é\n", max_size=4)
DAYS = st.dates(dt.date(2023, 12, 30), dt.date(2024, 1, 3))
FIRST, LAST = (dt.datetime.fromisoformat(day) for day in ("2023-12-31", "2024-01-02"))
TIMES = st.datetimes(FIRST, LAST).map(lambda at: at.replace(microsecond=at.second))
VALUES = {
    "id": st.integers(-(2**31), 2**31 - 1),
    "n": st.none() | st.integers(-3, 3),
    "u": st.none() | st.sampled_from([0, 2, 2**63, 2**64 - 1]),
    "m": st.none() | st.decimals(-3, 3, places=2),
    "f": st.none() | st.sampled_from([0.0, -0.0, 0.5, 2.0, -1e300, float("inf"), float("nan")]),
    "t": st.none() | TEXTS,
    "e": st.none() | st.sampled_from(["a", "b", ""]),
    "day": st.none() | DAYS,
    "seen": st.none() | TIMES,
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), max_size=8)
NUMBERS = st.sampled_from(["0", "2", "-3", "1.5", "-0.25", "70000", "18446744073709551615", "99999999999999999999.5"])
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


CONSTANTS = {
    **dict.fromkeys(("n", "u", "m", "f"), NUMBERS),
    **dict.fromkeys(("t", "e"), TEXTS.map(quoted)),
    "day": DAYS.map(lambda day: quoted(str(day))),
    "seen": TIMES.map(lambda at: quoted(str(at))) | DAYS.map(lambda day: quoted(str(day))),
}
LIKE_TYPES = [("n", "u"), ("n", "m"), ("u", "m"), ("m", "n"), ("f", "f"), ("t", "e"), ("day", "seen"), ("seen", "day")]


@st.composite
def single_test(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(CONSTANTS)))
    constants = CONSTANTS[name]
    negated = draw(st.sampled_from(["", "NOT "]))
    match draw(st.integers(0, 5)):
        case 0:
            return f"{name} {draw(SIGNS)} {draw(constants)}"
        case 1:
            return f"{draw(constants)} {draw(SIGNS)} {name}"
        case 2:
            return f"{name} IS {negated}NULL"
        case 3:
            return f"{name} {negated}IN ({', '.join(draw(st.lists(constants, min_size=1, max_size=3)))})"
        case 4:
            return f"{name} {negated}BETWEEN {draw(constants)} AND {draw(constants)}"
        case _:
            left, right = draw(st.sampled_from(LIKE_TYPES))
            return draw(
                st.sampled_from(
                    [
                        f"{left} {draw(SIGNS)} {right}",
                        f"t {negated}LIKE {draw(constants)}" if name in "te" else "id > 0",
                    ]
                )
            )


CONDITIONS = st.recursive(
    single_test(),
    lambda part: st.one_of(
        st.tuples(part, part).map(lambda two: f"({two[0]}) AND {two[1]}"),
        st.tuples(part, part).map(lambda two: f"({two[0]} OR ({two[1]}))"),
        st.tuples(part, part, part).map(lambda three: f"{three[0]} or {three[1]} and {three[2]}"),
        part.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=4,
)


def table_of(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, arrow_schema(SCHEMA))


@given(ROWS, CONDITIONS)
def test_a_condition_chooses_the_rows_that_sql_chooses(rows: list[dict[str, object]], condition: str) -> None:
    table = table_of(rows)

    _, chosen = Filter(condition).apply(SCHEMA, table)

    DUCKDB.register("orders", table)
    wanted = DUCKDB.sql(f"SELECT * FROM orders WHERE {condition}").to_arrow_table()
    assert repr(chosen.to_pylist()) == repr(wanted.to_pylist())


def matching(condition: str, **types: ColumnType) -> list[object]:
    """The ids of rows 1 (a value), 2 (another) and 3 (NULL) that match."""
    values: dict[str, list[object]] = {
        "at": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC), None],
        "span": [dt.timedelta(hours=-1), dt.timedelta(hours=30), None],
        "t": ["50%", "50x", None],
        "odd name": [1, 2, None],
    }
    columns = [Column(name, type_, nullable=True) for name, type_ in types.items()]
    schema = TableSchema(SCHEMA.table, (SCHEMA.column("id"), *columns), ("id",))
    rows = pa.table({"id": [1, 2, 3], **{name: values[name] for name in types}}).cast(arrow_schema(schema))
    _, found = Filter(condition).apply(schema, rows)
    return found.column("id").to_pylist()


def test_instants_are_in_utc_and_spans_of_time_may_be_negative_or_longer_than_a_day() -> None:
    assert matching("at > '2024-01-01'", at=TimestampType(0)) == [2]
    assert matching("at = '2024-01-01 00:00:00'", at=TimestampType(0)) == [1]
    assert matching("span < '00:00:00'", span=TimeType(0)) == [1]
    assert matching("span >= '29:59:59.5'", span=TimeType(0)) == [2]


def test_a_backslash_takes_the_meaning_of_a_pattern_s_characters_away() -> None:
    assert matching(r"t LIKE '50\%'", t=TextType(9, "utf8mb4")) == [1]
    assert matching("t LIKE '50%'", t=TextType(9, "utf8mb4")) == [1, 2]


def is_like(text: str, pattern: str) -> bool:
    """LIKE, as one reads it: character by character."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(is_like(text[at:], rest) for at in range(len(text) + 1))
    if first == "\\":
        first, rest = rest[0], rest[1:]
    elif first == "_":
        return bool(text) and is_like(text[1:], rest)
    return text.startswith(first) and is_like(text[1:], rest)


LIKE_TEXTS = st.text("aé%_\\\n.", max_size=5)
LIKE_PARTS = st.sampled_from(["a", "é", "%", "_", "\\%", "\\_", "\\\\", "\\a", "\n", ".", "\\.", "|", "$", "\0"])


@given(st.lists(LIKE_TEXTS, max_size=6), st.lists(LIKE_PARTS, max_size=6).map("".join))
@example(["C:\\temp\\a"], "%\\\\temp%")
@example(["a\n", "a"], "a")
def test_a_pattern_means_what_it_says_character_by_character(texts: list[str], pattern: str) -> None:
    rows: list[dict[str, object]] = [{"id": number, "t": text} for number, text in enumerate(texts)]

    found = Filter(f"t LIKE {quoted(pattern)}").matches(SCHEMA, table_of(rows))

    assert found.tolist() == [is_like(text, pattern) for text in texts]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("c = 'ab'", [True, False]),
        ("c = 'ab  '", [True, False]),
        ("c <> 'ab'", [False, True]),
        ("c IN ('b', 'abc')", [False, True]),
        ("c < 'ab!'", [True, False]),
        ("c = v", [True, False]),
        ("v = 'ab'", [True, False]),
        ("c LIKE 'ab'", [False, False]),
    ],
)
def test_blanks_that_postgresql_pads_with_are_not_compared(condition: str, found: list[bool]) -> None:
    columns = [Column("c", TextType(4, "utf8"), nullable=True, declaration="character(4)")]
    columns += [Column("v", TextType(4, "utf8"), nullable=True, declaration="character varying(4)")]
    schema = TableSchema(TableId("public", "t"), tuple(columns), ())
    rows = pa.Table.from_pylist([{"c": "ab  ", "v": "ab"}, {"c": "abc ", "v": "abc "}], schema=arrow_schema(schema))

    assert Filter(condition).matches(schema, rows).tolist() == found


def test_names_are_of_any_case_and_odd_ones_in_quotes() -> None:
    assert matching("ID = 1") == [1]
    assert matching('`odd name` = 2 AND "odd name" = 2', **{"odd name": SCHEMA.column("n").type}) == [2]


def test_words_of_sql_are_names_in_quotes_and_names_outside_of_them_keep_their_dollars() -> None:
    assert parse_condition("`select` = 1 AND a$b = 2") == Both(
        Comparison(Name("select"), "=", Constant(Decimal(1))), Comparison(Name("a$b"), "=", Constant(Decimal(2)))
    )


def test_true_and_false_are_numbers() -> None:
    assert matching("id = TRUE") == [1]
    assert matching("id IN (false, 2)") == [2]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("", "is empty"),
        ("a", "has 'a' where a comparison, IS, IN, LIKE or BETWEEN should be"),
        ("a = ", "lacks something after = (character 3)"),
        ("a = 'x", "has a quote that nothing closes"),
        ("a = 1 b = 2", "cannot be read as SQL at = (character 9)"),
        ("(a = 1", "lacks something after 1 (character 6)"),
        ("a = NULL", "which is neither true nor false: write IS NULL"),
        ("a IN (1, NULL)", "write IS NULL"),
        ("a IN (b)", "which takes constants"),
        ("a IS 1", "has 1 where NULL should be"),
        ("1 IS NULL", "has a constant before IS, where a column should be"),
        ("lower(a) = 'x'", "has 'LOWER(a)' where a column or a constant should be"),
        ("a LIKE b", "needs a text after LIKE"),
        (r"a LIKE 'x\'", "a pattern that ends with a backslash"),
        (" AND ".join(["a = 1"] * 101), "has more than 100 parts"),
        ("(" * 5000 + "a = 1" + ")" * 5000, "has more than 100 parts"),
        ("a = 1 b", "has 'a = 1 AS b' where"),
        ("t.a = 1", "has 't.a' where a column or a constant should be"),
        ("a LIKE 'x' ESCAPE 'y'", "where a comparison, IS, IN, LIKE or BETWEEN should be"),
        ("a = 1 = 1", "has 'a = 1' where a column or a constant should be"),
        ("a = 0x10", "where a comparison"),
        ("a IN (SELECT b FROM c)", "where a comparison, IS, IN, LIKE or BETWEEN should be"),
        ("select = 1", "lacks something"),
    ],
)
def test_a_condition_that_does_not_parse_tells_where(condition: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        parse_condition(condition)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("quantity > 1", "there is no such column (known here: id, n, u, m, f, t, e, day, seen, raw)"),
        ("dai = '2024-01-01'", "did you mean day?"),
        ("n = 'x'", "it is compared with x, and needs a number"),
        ("t = 1", "it is compared with 1, and needs a text in single quotes"),
        ("day = '2024-02-30'", "cannot be compared with it"),
        ("day > n", "it cannot be compared with n"),
        ("n LIKE '1%'", "LIKE is for text"),
        ("raw = 'x'", "only IS NULL can be asked of a column"),
        ("1 = 1", "compares two constants"),
    ],
)
def test_a_condition_that_does_not_fit_the_table_stops_it(condition: str, said: str) -> None:
    raw = Column("raw", BytesType(10, fixed=False), nullable=True)
    schema = TableSchema(SCHEMA.table, (*SCHEMA.columns, raw), ("id",))

    with pytest.raises(TableStoppedError) as caught:
        Filter(condition).derive(schema)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    "condition", ["amount > '99'", "'99' >= amount", "amount > 99", "amount = 1.5", "amount IN (1, 2)", "t < amount"]
)
def test_the_text_of_a_number_has_no_order_of_its_own_and_the_error_says_how_to_get_it(condition: str) -> None:
    amount = Column("amount", PrintedType("postgres"), nullable=True, declaration="numeric")
    schema = TableSchema(SCHEMA.table, (SCHEMA.column("id"), SCHEMA.column("t"), amount), ("id",))
    number = Column("amount_number", DecimalType(38, 10), nullable=True)
    computed = TableSchema(SCHEMA.table, (*schema.columns, number), ("id",))
    rows = [{"id": at, "amount": text, "amount_number": Decimal(text)} for at, text in enumerate(["9", "100", "1.50"])]
    table = pa.Table.from_pylist(rows, arrow_schema(computed))

    with pytest.raises(TableStoppedError, match="values of numeric come as the texts that the source prints") as caught:
        Filter(condition).derive(schema)

    assert 'amount_number, sql: "CAST(amount AS DECIMAL(38,10))"' in caught.value.hint
    assert Filter("amount_number > 99").matches(computed, table).tolist() == [False, True, False]
    assert Filter("amount IN ('9', '1.5')").matches(computed, table).tolist() == [True, False, False]


def test_filters_pickle() -> None:
    kept = Filter("n = 1 AND (t LIKE 'x%' OR NOT f > 1.5)")

    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301 - our own bytes
    assert kept.matches(SCHEMA, table_of([{"id": 1, "n": 1, "f": 1.0}])).tolist() == [True]
