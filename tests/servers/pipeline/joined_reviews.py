"""The join of the original's documentation, reviews and the businesses they are of, under a workload."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pymysql
    from tests.servers.pipeline.conftest import PipelineCase

BUSINESSES = "CREATE TABLE business (business_id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))"
REVIEWS = (
    "CREATE TABLE user_review (review_id BIGINT PRIMARY KEY, biz_id BIGINT, stars DECIMAL(2,1) NOT NULL COMMENT 'Of 5',"
    " content TEXT)"
)
JOINED = (
    "SELECT r.biz_id, r.stars, b.city, r.review_id FROM user_review r JOIN business b ON r.biz_id = b.business_id"
    " ORDER BY r.review_id"
)


def add_join(file: Path, database: str) -> str:
    """Write the join's file beside a pipeline's, and name it there, and a link that loads it; return the join's name.

    Its topic begins with the database's name, for pipelines of tests share a broker.
    """
    name = f"reviews_{database}"
    join = {
        "join": [
            {
                "topic": f"db.{database}.user_review",
                "join_keys": ["biz_id"],
                "exclude_fields": ["content", "review_id"],
            },
            {
                "topic": f"{database}.business",
                "join_keys": ["business_id"],
                "aliases": [{"from": "business_id", "to": "biz_id"}],
                "exclude_fields": ["name"],
            },
        ],
        "output": {"namespace": "joined", "source": name, "doc": "Reviews", "pkey": ["business_id"]},
    }
    (file.parent / "business_review.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(file.read_text())
    config["joins"] = ["business_review.yaml"]
    config["links"].append({"from": name, "to": "warehouse"})
    file.write_text(yaml.safe_dump(config))
    return name


def inspect(case: PipelineCase, *options: str) -> subprocess.CompletedProcess[str]:
    """Ask from a process of its own: `penstock joinery inspect` stops its session, which is that of all tests here."""
    command = [sys.executable, "-m", "penstock", "joinery", "inspect", str(case.file), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def join_in_source(connection: pymysql.Connection) -> list[tuple[object, ...]]:
    """What SQL makes of the source's tables."""
    with connection.cursor() as cursor:
        cursor.execute(JOINED)
        return [tuple(row) for row in cursor.fetchall()]


def change_reviews(rng: Random) -> str:
    """Some change of reviews and businesses."""
    business, review = rng.randrange(30), rng.randrange(300)
    biz_id = rng.choice(["NULL", *map(str, range(35))])
    return rng.choice(
        [
            f"REPLACE INTO user_review VALUES ({review}, {biz_id}, {rng.randrange(10)} / 2, 'text')",
            f"UPDATE user_review SET biz_id = {biz_id} WHERE review_id BETWEEN {review} AND {review + 5}",
            f"UPDATE IGNORE user_review SET review_id = {review} WHERE review_id = {rng.randrange(300)}",
            f"DELETE FROM user_review WHERE review_id = {review}",
            f"INSERT IGNORE INTO business VALUES ({business}, 'a', 'city {rng.randrange(5)}')",
            f"UPDATE business SET city = 'city {rng.randrange(9)}' WHERE business_id = {business}",
            f"DELETE FROM business WHERE business_id = {business} AND {rng.randrange(3)} = 0",
        ]
    )


class Workload:
    """Changes of the source, one after the other, while a `with` block lasts."""

    def __init__(
        self,
        connect: Callable[[], pymysql.Connection],
        seed: int,
        statement: Callable[[Random], str] = change_reviews,
    ) -> None:
        """Choose by `seed` which `statement` comes next."""
        self._connect = connect
        self._statement = statement
        self._rng = Random(seed)  # noqa: S311 - what it makes is no secret
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.changes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.005):
                cursor.execute(self._statement(self._rng))
                self.changes += 1


def fold(changes: Sequence[tuple[str, Mapping[str, object] | None, Mapping[str, object] | None]]) -> list[object]:
    """The rows that changes (op, before, after) leave by review, which must each fit what was there before."""
    rows: dict[object, Mapping[str, object]] = {}
    for op, before, after in changes:
        key = ((after if op in "cu" else before) or {})["review_id"]
        assert rows.get(key) == (None if op == "c" else before)
        rows.pop(key, None)
        if op != "d" and after is not None:
            rows[key] = after
    return [tuple(row.values()) for _, row in sorted(rows.items(), key=lambda item: int(str(item[0])))]
