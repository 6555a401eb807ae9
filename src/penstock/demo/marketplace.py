"""Make the marketplace database and fill it, the same way for the same seed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.demo import rows
from penstock.demo.sources.pick import database_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.demo.rows import Row
    from penstock.demo.sources.database import SourceServer

ROWS_TOTAL: Final = 200_000
SEED: Final = 20_160_801
_TRANSACTION_ROWS: Final = 2_000
_PACKAGE_CODES: Final = ("SPRING-25%", "café-été", "always_on", "Weekend Special")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows each table starts with. Ids run from 1 without a hole."""

    businesses: int
    users: int
    reviews: int
    ad_packages: int
    audit_log: int

    @property
    def total(self) -> int:
        """Rows of all tables."""
        return self.businesses + self.users + self.reviews + self.ad_packages + self.audit_log


def plan_sizes(rows_total: int) -> Sizes:
    """Share out at least `rows_total` rows (20 or more): 10 % places, 25 % users, 45 % reviews, 10 % ads, 10 % log."""
    tenth = -(-rows_total // 10)
    return Sizes(tenth, rows_total // 4, rows_total - 3 * tenth - rows_total // 4, tenth, tenth)


def fill(
    server: SourceServer,
    rows_total: int = ROWS_TOTAL,
    seed: int = SEED,
    on_progress: Callable[[int], None] | None = None,
) -> Sizes:
    """Make schema `shop` anew with at least `rows_total` rows, and return how many each table has.

    An older `shop` is dropped. `on_progress` is called with the rows written so
    far, after every transaction. Raises UnavailableError and UnfitServerError.
    """
    sizes = plan_sizes(rows_total)
    database = database_of(server)
    words = database.words
    with closing(database.connect()) as connection, database.explained(), connection.cursor() as cursor:
        for statement in (*words.begin_anew, *words.create_tables.values()):
            cursor.execute(statement)
        written = 0
        for table, some in _transactions(Random(seed), sizes):  # noqa: S311 - repeatable rows, not secrets
            cursor.executemany(words.insert(table), some)
            connection.commit()
            written += len(some)
            if on_progress is not None:
                on_progress(written)
    return sizes


def package_code(number: int) -> str:
    """Return the code of a place's `number`-th package."""
    return f"{_PACKAGE_CODES[number % len(_PACKAGE_CODES)]} {number // len(_PACKAGE_CODES)}".removesuffix(" 0")


def _transactions(random: Random, sizes: Sizes) -> Iterator[tuple[str, list[Row]]]:
    for table, generated in _tables(random, sizes).items():
        while some := list(islice(generated, _TRANSACTION_ROWS)):
            yield table, some


def _tables(random: Random, sizes: Sizes) -> dict[str, Iterator[Row]]:
    return {
        "businesses": (rows.business(random, i) for i in range(1, sizes.businesses + 1)),
        "users": (rows.user(random, i) for i in range(1, sizes.users + 1)),
        "reviews": (rows.review(random, i, sizes.businesses, sizes.users) for i in range(1, sizes.reviews + 1)),
        "ad_packages": (rows.ad_package(random, 1 + i // 2, package_code(i % 2)) for i in range(sizes.ad_packages)),
        "audit_log": (rows.audit_entry(random) for _ in range(sizes.audit_log)),
    }
