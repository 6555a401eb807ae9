"""Rows of the marketplace: realistic, awkward, and the same for the same random generator."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

Value: TypeAlias = int | float | str | bytes | Decimal | date | timedelta | None
"""What a column holds; a datetime is a date."""
Row: TypeAlias = tuple[Value, ...]
_T = TypeVar("_T")

_EXTREME_EVERY: Final = 997
_EPOCH: Final = datetime(2021, 3, 28, 1, 30)  # noqa: DTZ001 - DATETIME has no zone; this hour does not exist in London
_SPAN_MICROSECONDS: Final = 4 * 365 * 86_400 * 10**6
_FIRST_DAY: Final = date(1931, 1, 1)

_CATEGORIES: Final = ("restaurant", "café", "bar", "shop", "hotel", "museum", "garage")
_COUNTRIES: Final = ("GB", "DE", "FR", "IT", "ES", "JP", "IN", "BR", "SE", "T")
_LOCALES: Final = ("en_GB", "de_DE", "ja_JP", "pt_BR", "fr", "C")
_TIERS: Final = ("bronze", "silver", "gold", None)
_ADJECTIVES: Final = ("Golden", "Little", "Old", "Café Ü", "Naïve", "Crooked", "日本", "Blue", "O'Neill's", '"Grand"')
_NOUNS: Final = ("Anchor", "Garden", "Fox & Hound", "Bücherei", "Taverna", "Garage 🚗", "Ramen 🍜", "Museum", "Corner")
_FIRST_NAMES: Final = ("Ada", "Grace", "Zoë", "Łukasz", "Müge", "佐藤", "Óscar", "Ngozi", "Sinéad", "D'Arcy", "Иван")
_LAST_NAMES: Final = ("Lovelace", "Hopper", "Ångström", "Nguyễn", "O'Brien", "García", "Smith", "中村", "Ödegård")
_PHRASES: Final = (
    "Best noodles in town 🍜",
    'They said "ten minutes", it was an hour',
    "C:\\temp\\menu.pdf would not open",
    "line one\nline two\r\n\tindented",
    "Слишком громко",
    "I can't recommend it -- really; DROP TABLE lunch",
    "100% worth it_",
    "👩‍👩‍👧‍👦 welcome",
    "中文菜单很好",
    "quiet, cheap, and the staff care",
    "no comment",
    "  spaces around  ",
)
_ACTIONS: Final = ("login", "logout", "review.create", "review.edit", "budget.change", "export", "password.reset")
_DEVICES: Final = ("the app", "a web 'page'", "📱", "", "a kiosk; lobby")


def business(random: Random, business_id: int) -> Row:
    """Return a row for `shop.businesses`; one in 997 is made of the extremes of its types."""
    if business_id % _EXTREME_EVERY == 0:
        return _extreme_business(business_id)
    chance = random.random
    return (
        business_id,
        random.randbytes(16) if _happens(random, 0.99) else business_id.to_bytes(4, "big") + bytes(12),
        f"{_pick(random, _ADJECTIVES)} {_pick(random, _NOUNS)} {business_id}",
        _pick(random, _CATEGORIES),
        text(random, 3) if _happens(random, 0.7) else None,
        _pick(random, _COUNTRIES),
        f"{int(chance() * 99_999):05d}" if _happens(random, 0.9) else None,
        chance() * 180 - 90,
        chance() * 360 - 180,
        round(chance() * 4 + 1, 1) if _happens(random, 0.9) else None,
        int(chance() * 500),
        int(chance() * 5) if _happens(random, 0.8) else None,
        int(chance() * 3_000) - 400,
        int(chance() * 60_000) if _happens(random, 0.8) else None,
        1901 + int(chance() * 124) if _happens(random, 0.7) else None,
        int(_happens(random, 0.9)),
        random.randbytes(int(chance() * 60)) if _happens(random, 0.3) else None,
        instant(random),
        instant(random),
    )


def user(random: Random, user_id: int) -> Row:
    """Return a row for `shop.users`; one in 997 is made of the extremes of its types."""
    if user_id % _EXTREME_EVERY == 0:
        return _extreme_user(user_id)
    chance = random.random
    return (
        user_id,
        f"user{user_id}@example.org",
        f"{_pick(random, _FIRST_NAMES)} {_pick(random, _LAST_NAMES)}" if _happens(random, 0.95) else None,
        _FIRST_DAY + timedelta(days=int(chance() * 28_000)) if _happens(random, 0.8) else None,
        _pick(random, _LOCALES),
        int(chance() * 16_000_000) - 8_000_000,
        int(chance() * 16_777_215),
        random.getrandbits(63) - 2**62,
        money(random, 100_000),
        Decimal(random.getrandbits(60) - 2**59).scaleb(-10) if _happens(random, 0.5) else None,
        random.randbytes(32) if _happens(random, 0.9) else None,
        (0, 1, None)[int(chance() * 3)],
        int(chance() * 256) - 128,
        instant(random),
        instant(random) if _happens(random, 0.8) else None,
    )


def review(random: Random, review_id: int, businesses: int, users: int) -> Row:
    """Return a row for `shop.reviews` about one of `businesses` places by one of `users` people."""
    chance = random.random
    return (
        review_id,
        1 + int(chance() * businesses),
        1 + int(chance() * users),
        1 + int(chance() * 5),
        _pick(random, _PHRASES),
        text(random, 4) if _happens(random, 0.85) else (None, "")[int(chance() * 2)],
        int(chance() * 5_000),
        chance() * 100 if _happens(random, 0.7) else None,
        date(2021, 1, 1) + timedelta(days=int(chance() * 1_400)) if _happens(random, 0.7) else None,
        instant(random),
    )


def ad_package(random: Random, business_id: int, package_code: str) -> Row:
    """Return a row for `shop.ad_packages`; its key is (business_id, package_code)."""
    chance = random.random
    return (
        business_id,
        package_code,
        _pick(random, _TIERS),
        Decimal(int(chance() * 10**9)).scaleb(-4),
        Decimal(int(chance() * 10**6)).scaleb(-4),
        chance() / 7 if _happens(random, 0.8) else None,
        date(2022, 1, 1) + timedelta(days=int(chance() * 1_000)),
        date(2025, 1, 1) + timedelta(days=int(chance() * 1_000)) if _happens(random, 0.7) else None,
        random.randbytes(int(chance() * 40)) if _happens(random, 0.6) else (None, b"")[int(chance() * 2)],
        instant(random).replace(microsecond=0),
    )


def audit_entry(random: Random) -> Row:
    """Return a row for `shop.audit_log`; one in twenty is alike to the letter, because nothing forbids it."""
    if _happens(random, 0.05):
        return (_EPOCH, "cron", "heartbeat", None, None)
    return (
        instant(random),
        _pick(random, _FIRST_NAMES),
        _pick(random, _ACTIONS),
        random.getrandbits(40) if _happens(random, 0.7) else None,
        text(random, 2) if _happens(random, 0.6) else None,
    )


def booking(random: Random, booking_id: int, businesses: int, users: int) -> Row:
    """Return a row for `shop.bookings`, the table that appears while the demo runs."""
    chance = random.random
    return (
        booking_id,
        1 + int(chance() * businesses),
        1 + int(chance() * users),
        1 + int(chance() * 12),
        money(random, 200) if _happens(random, 0.6) else None,
        _pick(random, _PHRASES) if _happens(random, 0.5) else None,
        instant(random).replace(microsecond=0),
        instant(random),
    )


def text(random: Random, phrases_max: int) -> str:
    """Return one to `phrases_max` phrases, quotes, line breaks and emoji among them."""
    return " ".join([_pick(random, _PHRASES) for _ in range(1 + int(random.random() * phrases_max))])


def short_text(random: Random) -> str:
    """Return a few characters, 20 at most."""
    return _pick(random, _DEVICES)


def money(random: Random, whole_max: int) -> Decimal:
    """Return an amount with two decimals between minus and plus `whole_max`."""
    return Decimal(int((random.random() * 2 - 1) * whole_max * 100)).scaleb(-2)


def instant(random: Random) -> datetime:
    """Return a time of the years 2021 to 2025, to the microsecond, without a zone."""
    return _EPOCH + timedelta(microseconds=int(random.random() * _SPAN_MICROSECONDS))


def _extreme_business(business_id: int) -> Row:
    low = business_id % 2 == 0
    return (
        business_id,
        bytes(16) if low else b"\xff" * 15 + b"\x00",
        "" if low else "𝄞" * 120,
        _CATEGORIES[0] if low else _CATEGORIES[-1],
        "" if low else "long " * 2_000,
        "" if low else "ZZ",
        None if low else " " * 12,
        -1.7976931348623157e308 if low else 2.2250738585072014e-308,
        0.1 + 0.2 if low else 5e-324,
        -3.4028234e38 if low else 1.1754944e-38,
        -(2**31) if low else 2**31 - 1,
        0 if low else 255,
        -(2**15) if low else 2**15 - 1,
        0 if low else 2**16 - 1,
        1901 if low else 2155,
        0 if low else 1,
        b"" if low else bytes(range(256)) * 4,
        datetime(1000, 1, 1) if low else datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - DATETIME
        datetime(1970, 1, 1, 0, 0, 1) if low else datetime(2038, 1, 19, 3, 14, 7, 999_999),  # noqa: DTZ001 - sent as UTC
    )


def _extreme_user(user_id: int) -> Row:
    low = user_id % 2 == 0
    return (
        user_id,
        "" if low else "x" * 254,
        "NULL" if low else "\\N\t'\"\u00a0\u2028\ufeff",
        date(1000, 1, 1) if low else date(9999, 12, 31),
        "" if low else "a b c",
        -(2**23) if low else 2**23 - 1,
        0 if low else 2**24 - 1,
        -(2**63) if low else 2**63 - 1,
        Decimal("-9999999999.99") if low else Decimal("9999999999.99"),
        Decimal("-99999999999999999999.9999999999") if low else Decimal("0.0000000001"),
        b"" if low else b"\x00'\\\"\n" + bytes(27),
        0 if low else 1,
        -128 if low else 127,
        datetime(1900, 2, 28, 23, 59, 59, 1) if low else datetime(2000, 2, 29),  # noqa: DTZ001 - DATETIME
        datetime(1970, 1, 1, 0, 0, 1) if low else datetime(2038, 1, 19, 3, 14, 7, 999_999),  # noqa: DTZ001 - sent as UTC
    )


def _happens(random: Random, share: float) -> bool:
    return random.random() < share


def _pick(random: Random, choices: Sequence[_T]) -> _T:
    """Return one of `choices`; several times faster than Random.choice, which matters for 200,000 rows."""
    return choices[int(random.random() * len(choices))]
