"""What people do on the marketplace, one transaction at a time: pure, no clock, no connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.demo import rows
from penstock.demo.marketplace import package_code
from penstock.demo.schema import COLUMNS

if TYPE_CHECKING:
    from random import Random

    from penstock.demo.marketplace import Sizes
    from penstock.demo.rows import Row, Value
    from penstock.demo.sources.words import SqlWords

_SAMPLE_EVERY: Final = 2
_BEYOND_INT: Final = 2**31
_ROWS_AT_CLOSE: Final = 60


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement on `table`; several rows of parameters make it one multi-row INSERT, a tuple is a list of IN."""

    table: str
    sql: str
    parameters: tuple[tuple[Value | tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """An inserted row whose way to the warehouse is timed. `table` has the integer key `id`."""

    table: str
    key: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that commit together. `changes` is how many rows they are meant to change."""

    statements: tuple[Statement, ...]
    changes: int
    sample: Sample | None = None


class Actions:
    """Draws one transaction after another. It remembers ids, never rows.

    A transaction that was lost on the way makes later ones change fewer rows
    than they were meant to; none of them fails for it.
    """

    def __init__(self, random: Random, sizes: Sizes, words: SqlWords) -> None:
        """Begin on the marketplace that `fill` made with `sizes`."""
        self._random = random
        self._words = words
        self._businesses = sizes.businesses
        self._users = sizes.users
        self._package_places = sizes.ad_packages // 2
        self._review_ids = list(range(1, sizes.reviews + 1))
        self._review_id_last = sizes.reviews
        self._review_columns = COLUMNS["reviews"]
        self._useful_max = 10_000
        self._title_phrases = 1
        self._user_id_last = sizes.users
        self._package_last = 1
        self._booking_id_last = 0
        self._posts = 0
        self._choices = [
            *[self._post_reviews] * 30,
            *[self._edit_reviews] * 20,
            *[self._spend] * 20,
            *[self._delete_reviews] * 8,
            *[self._sign_up] * 8,
            *[self._sell_packages] * 6,
            *[self._change_keys] * 4,
            *[self._replace_package] * 3,
            *[self._rewrite_log] * 4,
            *[self._close_the_day] * 4,
        ]

    def next_transaction(self) -> Transaction:
        """Draw the next one."""
        return self._choices[self._below(len(self._choices))]()

    def fill_review_column(self, column: str) -> None:
        """Give new reviews a value for `column` (`reply` or `written_on`), which the table has now."""
        self._review_columns = (*self._review_columns, column)

    def use_wider_reviews(self) -> None:
        """Write values into reviews that the table could not hold before it was widened."""
        self._useful_max = _BEYOND_INT * 1_000
        self._title_phrases = 5

    def take_bookings(self) -> None:
        """Write to the table `bookings` too, which is there now."""
        self._choices += [*[self._book] * 15, *[self._rebook] * 5, *[self._cancel] * 3]

    def _post_reviews(self) -> Transaction:
        self._posts += 1
        first, count = self._review_id_last + 1, 1 + self._below(25)
        self._review_id_last += count
        sampled = self._posts % (_SAMPLE_EVERY) == 0
        # A sampled review is never deleted: the watcher has to find it.
        self._review_ids += range(first + int(sampled), first + count)
        posted = tuple(self._review(i) for i in range(first, first + count))
        stars = (self._below(10**6), 1 + self._random.random() * 4, self._business())
        return Transaction(
            (
                Statement("reviews", self._words.insert("reviews", self._review_columns), posted),
                Statement(
                    "businesses", "UPDATE shop.businesses SET review_count = %s, rating = %s WHERE id = %s", (stars,)
                ),
                self._log(1),
            ),
            count + 2,
            Sample("reviews", first) if sampled else None,
        )

    def _edit_reviews(self) -> Transaction:
        ids = [self._review_ids[self._below(len(self._review_ids))] for _ in range(1 + self._below(25))]
        new = (self._title(), self._body(), self._below(self._useful_max), self._random.random() * 100)
        changed = "UPDATE shop.reviews SET title = %s, body = %s, useful = %s, score = %s WHERE id"
        sql = f"{changed} {self._words.in_list}"
        return Transaction((Statement("reviews", sql, ((*new, tuple(ids)),)),), len(set(ids)))

    def _delete_reviews(self) -> Transaction:
        ids = tuple(self._take_review() for _ in range(1 + self._below(25)))
        sql = f"DELETE FROM shop.reviews WHERE id {self._words.in_list}"  # noqa: S608 - our own words
        gone = Statement("reviews", sql, ((ids,),))
        return Transaction((gone, self._log(1)), len(ids) + 1)

    def _spend(self) -> Transaction:
        amount = rows.money(self._random, 500)
        seen = (amount, rows.instant(self._random), 1 + self._below(self._users))
        spent = (abs(amount), self._package_place())
        return Transaction(
            (
                Statement("users", "UPDATE shop.users SET balance = %s, last_seen_at = %s WHERE id = %s", (seen,)),
                Statement("ad_packages", "UPDATE shop.ad_packages SET spent = %s WHERE business_id = %s", (spent,)),
                self._log(1),
            ),
            4,
        )

    def _sign_up(self) -> Transaction:
        first, count = self._user_id_last + 1, 1 + self._below(8)
        self._user_id_last += count
        people = tuple(rows.user(self._random, i) for i in range(first, first + count))
        return Transaction((Statement("users", self._words.insert("users"), people), self._log(count)), 2 * count)

    def _sell_packages(self) -> Transaction:
        place, count = self._package_place(), 1 + self._below(5)
        codes = [self._new_package_code() for _ in range(count)]
        sold = tuple(rows.ad_package(self._random, place, code) for code in codes)
        return Transaction((Statement("ad_packages", self._words.insert("ad_packages"), sold),), count)

    def _change_keys(self) -> Transaction:
        """Give a user a new id and a package a new code: both are changes of the primary key."""
        self._user_id_last += 1
        user = (self._user_id_last, 1 + self._below(self._users))
        package = (self._new_package_code(), self._package_place(), package_code(0))
        renamed = "UPDATE shop.ad_packages SET package_code = %s WHERE business_id = %s AND package_code = %s"
        return Transaction(
            (
                Statement("users", "UPDATE shop.users SET id = %s WHERE id = %s", (user,)),
                Statement("ad_packages", renamed, (package,)),
            ),
            2,
        )

    def _replace_package(self) -> Transaction:
        """Delete a row and insert one with the same key, in one transaction, then change it twice."""
        place, code = self._package_place(), package_code(1)
        row = rows.ad_package(self._random, place, code)
        changed = "UPDATE shop.ad_packages SET budget = budget + 1 WHERE business_id = %s AND package_code = %s"
        return Transaction(
            (
                Statement(
                    "ad_packages",
                    "DELETE FROM shop.ad_packages WHERE business_id = %s AND package_code = %s",
                    ((place, code),),
                ),
                Statement("ad_packages", self._words.insert("ad_packages"), (row,)),
                Statement("ad_packages", changed, ((place, code),)),
                Statement("ad_packages", changed, ((place, code),)),
            ),
            4,
        )

    def _rewrite_log(self) -> Transaction:
        """Change and delete rows of the table that has no primary key."""
        older = rows.instant(self._random)
        return Transaction(
            (
                Statement("audit_log", self._words.change_log, ((self._body(), older),)),
                Statement("audit_log", self._words.cut_log, ((older,),)),
            ),
            6,
        )

    def _close_the_day(self) -> Transaction:
        """Change many rows at once."""
        first = self._business()
        span = (self._below(2), first, first + _ROWS_AT_CLOSE - 1)
        closed = "UPDATE shop.businesses SET price_level = 3 + %s WHERE id BETWEEN %s AND %s"
        return Transaction((Statement("businesses", closed, (span,)), self._log(_ROWS_AT_CLOSE)), 2 * _ROWS_AT_CLOSE)

    def _book(self) -> Transaction:
        first, count = self._booking_id_last + 1, 1 + self._below(8)
        self._booking_id_last += count
        booked = tuple(
            rows.booking(self._random, i, self._businesses, self._users) for i in range(first, first + count)
        )
        return Transaction((Statement("bookings", self._words.insert("bookings"), booked),), count)

    def _rebook(self) -> Transaction:
        guests = (1 + self._below(12), rows.money(self._random, 200), 1 + self._below(self._booking_id_last + 1))
        moved = "UPDATE shop.bookings SET guests = %s, deposit = %s WHERE id = %s"
        return Transaction((Statement("bookings", moved, (guests,)),), 1)

    def _cancel(self) -> Transaction:
        booking = 1 + self._below(self._booking_id_last + 1)
        return Transaction((Statement("bookings", "DELETE FROM shop.bookings WHERE id = %s", ((booking,),)),), 1)

    def _review(self, review_id: int) -> Row:
        row = rows.review(self._random, review_id, self._businesses, self._users)
        added = self._review_columns[len(row) :]
        return (*row, *(self._added_value(column) for column in added)) if added else row

    def _added_value(self, column: str) -> str | None:
        return rows.short_text(self._random) if column == "written_on" else self._body()

    def _log(self, count: int) -> Statement:
        entries = tuple(rows.audit_entry(self._random) for _ in range(count))
        return Statement("audit_log", self._words.insert("audit_log"), entries)

    def _title(self) -> str:
        return rows.text(self._random, self._title_phrases)

    def _body(self) -> str | None:
        return rows.text(self._random, 4) if self._below(10) else None

    def _business(self) -> int:
        return 1 + self._below(self._businesses)

    def _package_place(self) -> int:
        return 1 + self._below(self._package_places)

    def _new_package_code(self) -> str:
        self._package_last += 1
        return package_code(self._package_last)

    def _take_review(self) -> int:
        """Take an id out of those that are left, at a cost that does not grow with their number."""
        index = self._below(len(self._review_ids))
        taken = self._review_ids[index]
        last = self._review_ids.pop()
        if index < len(self._review_ids):
            self._review_ids[index] = last
        return taken

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)
