"""Salted hashes: the same for the same value wherever it is, different for different keys, and never the salt."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import pickle
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, EMAIL, SALT, applied

from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BitType,
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
    TextType,
    TimestampType,
    TimeType,
    VectorType,
    YearType,
)
from penstock.core.transforms.canonical import renderer
from penstock.core.transforms.hashes import HASH_TYPE, HashColumns, Salt

INT = IntegerType(32, unsigned=False)
TEXT = TextType(64, "utf8mb4")
MOMENT = dt.datetime(2024, 1, 31, 12, 0, 0, 500_000)  # noqa: DTZ001 - DATETIME has no zone
MIDNIGHT = MOMENT.replace(hour=0, microsecond=0)


def hashed(type_: ColumnType, value: object, salt: Salt = SALT) -> object:
    schema = replace(CUSTOMERS, columns=(CUSTOMERS.column("id"), Column("x", type_, nullable=True)))
    return applied(HashColumns(("x",), salt), [{"id": 1, "x": value}], schema)[0]["x"]


def hmac_of(content: bytes) -> str:
    return hmac.new(SALT.secret, content, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("type_", "value", "content"),
    [
        (TEXT, "é \n", "é \n".encode()),
        (TEXT, "", b""),
        (EnumType(("a",)), "a", b"a"),
        (PrintedType("json"), '{"a": 1.0}', b'{"a": 1.0}'),
        (BytesType(9, fixed=False), b"\0\xff", b"\0\xff"),
        (INT, -12, b"-12"),
        (IntegerType(64, unsigned=True), 2**64 - 1, b"18446744073709551615"),
        (BitType(9), 511, b"511"),
        (YearType(), 2024, b"2024"),
        (DecimalType(8, 2), Decimal("12.00"), b"12"),
        (DecimalType(8, 2), Decimal("-0.50"), b"-0.5"),
        (DecimalType(65, 30), Decimal("1234567890123456789012345678901234.5"), b"1234567890123456789012345678901234.5"),
        (FloatType(64), 12.0, b"12"),
        (FloatType(64), 0.1, b"0.1"),
        (FloatType(32), 0.1, b"0.10000000149011612"),
        (FloatType(64), -0.0, b"0"),
        (FloatType(64), 1e-7, b"0.0000001"),
        (FloatType(64), -1.5e22, b"-15000000000000000000000"),
        (FloatType(64), float("nan"), b"NaN"),
        (FloatType(64), float("-inf"), b"-Infinity"),
        (DateType(), dt.date(987, 1, 31), b"0987-01-31"),
        (DateTimeType(6), MOMENT, b"2024-01-31 12:00:00.5"),
        (DateTimeType(0), MIDNIGHT, b"2024-01-31 00:00:00"),
        (TimestampType(6), MOMENT.replace(tzinfo=dt.UTC), b"2024-01-31 12:00:00.5Z"),
        (PrintedType("datetime", 3), "0000-00-00 12:00:00.500", b"0000-00-00 12:00:00.5"),
        (PrintedType("timestamp", 1), "2024-01-31 12:00:00.0", b"2024-01-31 12:00:00Z"),
        (TimeType(6), dt.timedelta(hours=-838, minutes=-59, seconds=-59, milliseconds=-500), b"-838:59:59.5"),
        (TimeType(0), dt.timedelta(hours=1), b"01:00:00"),
    ],
)
def test_a_hash_is_that_of_the_documented_bytes(type_: ColumnType, value: object, content: bytes) -> None:
    assert hashed(type_, value) == hmac_of(content)


@pytest.mark.parametrize("length", [16, 63, 64, 65, 200])
def test_hashes_are_hmac_whatever_the_salt_s_length(length: int) -> None:
    salt = Salt("S", bytes(range(length)))

    assert hashed(TEXT, "x", salt) == hmac.new(salt.secret, b"x", hashlib.sha256).hexdigest()


def test_one_value_has_one_hash_in_every_type_table_column_and_batch() -> None:
    wider: list[ColumnType] = [
        INT,
        IntegerType(64, unsigned=True),
        DecimalType(8, 2),
        FloatType(32),
        FloatType(64),
        BitType(20),
        TEXT,
    ]
    other = replace(CUSTOMERS, table=replace(CUSTOMERS.table, name="other"), key=())
    rows: list[dict[str, object]] = [{"id": n % 3, "email": str(n % 3)} for n in range(9)]

    assert len({hashed(type_, "12" if type_ is TEXT else 12) for type_ in wider}) == 1
    found = applied(HashColumns(("id", "email"), SALT), rows)
    assert (
        [row["id"] for row in found] == [row["email"] for row in found] == [hmac_of(b"%d" % (n % 3)) for n in range(9)]
    )
    assert applied(HashColumns(("email",), SALT), rows[:1], other)[0]["email"] == found[0]["email"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_doubles_keep_their_value_without_an_exponent(values: list[float]) -> None:
    for value in values:
        text = renderer(FloatType(64))(value).decode()

        assert float(text) == value
        assert Decimal(text) == Decimal(repr(value))
        assert "e" not in text


@given(st.sets(st.decimals(-99999, 99999, places=3)), st.sets(st.text()))
def test_different_keys_have_different_hashes(numbers: set[Decimal], texts: set[str]) -> None:
    assert len({hashed(DecimalType(8, 3), number) for number in numbers}) == len(numbers)
    assert len({hashed(TEXT, text) for text in texts}) == len(texts)


def test_a_hashed_key_stays_the_key_and_null_stays_null() -> None:
    both = HashColumns(("id", "email"), SALT)

    after = both.derive(CUSTOMERS)

    assert after.key == ("id",)
    assert [(c.type, c.nullable, c.declaration) for c in after.columns[:2]] == [
        (HASH_TYPE, False, f"hash of {INT}"),
        (HASH_TYPE, True, "hash of varchar(20)"),
    ]
    assert applied(both, [{"id": 5, "email": None}])[0]["email"] is None


@pytest.mark.parametrize(
    ("column", "default"),
    [
        (EMAIL, None),
        (replace(EMAIL, default="x"), hmac_of(b"x")),
        (replace(EMAIL, nullable=False), hmac_of(b"")),
        (Column("email", DecimalType(8, 2), nullable=False), hmac_of(b"0")),
        (Column("email", DecimalType(8, 2), nullable=True, default="1.50"), hmac_of(b"1.5")),
    ],
)
def test_a_default_is_hashed_like_the_values_that_rows_get_from_it(column: Column, default: str | None) -> None:
    after = HashColumns(("email",), SALT).derive(replace(CUSTOMERS, columns=(CUSTOMERS.columns[0], column)))

    assert (after.column("email").default, after.column("email").default_is_expression) == (default, False)


def test_a_default_that_only_the_source_knows_is_no_less_unknown_when_it_is_hashed() -> None:
    column = replace(EMAIL, default="uuid()", default_is_expression=True)

    after = HashColumns(("email",), SALT).derive(replace(CUSTOMERS, columns=(CUSTOMERS.columns[0], column)))

    assert after.column("email").default_is_expression


def test_a_type_without_a_representation_stops_the_table() -> None:
    with pytest.raises(TableStoppedError, match=r"cannot be hashed: its values have no representation"):
        hashed(VectorType(2), [1.0, 2.0])


def test_a_salt_is_long_enough_and_is_never_shown() -> None:
    with pytest.raises(ValueError, match="the salt in PII_SALT has 15 bytes, and needs 16 at least") as caught:
        Salt("PII_SALT", b"0123456789abcde")

    assert "0123456789" not in str(caught.value)
    assert "some length" not in repr(HashColumns(("id",), SALT))
    assert pickle.loads(pickle.dumps(HashColumns(("id",), SALT))) == HashColumns(("id",), SALT)  # noqa: S301 - our own bytes
    assert (
        SALT.fingerprint == Salt("OTHER", SALT.secret).fingerprint != Salt("PII_SALT", SALT.secret + b"!").fingerprint
    )
