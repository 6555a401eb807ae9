"""Rows that the source logs without all of their columns, from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

POSTS = """CREATE TABLE posts (
    id INT PRIMARY KEY,
    title VARCHAR(40) NOT NULL DEFAULT 'untitled',
    body TEXT,
    likes INT UNSIGNED NOT NULL,
    price DECIMAL(20,2) DEFAULT -1.5,
    doubled BIGINT AS (likes * 2) STORED,
    seen DATETIME(6)
)"""
MINIMAL, NOBLOB = (f"SET SESSION binlog_row_image = '{image}'" for image in ("MINIMAL", "NOBLOB"))


def test_what_a_row_lacks_is_kept(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2, row_images="partial")
    case.write(POSTS, "INSERT INTO posts (id, body, likes) VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)")
    case.run_once()
    case.write(
        MINIMAL,
        "UPDATE posts SET likes = likes + 10 WHERE id = 1",
        "UPDATE posts SET body = NULL, price = NULL WHERE id = 2",
        "INSERT INTO posts (id, likes) VALUES (4, 4), (5, 5)",
        "UPDATE posts SET title = 'five' WHERE id = 5",
        NOBLOB,
        "UPDATE posts SET title = 'blob as it was' WHERE id IN (1, 4)",
        "UPDATE posts SET body = 'a body' WHERE id = 5",
        "UPDATE posts SET seen = '2026-01-02 03:04:05.678901' WHERE id = 5",
        "DELETE FROM posts WHERE id = 3",
        "INSERT INTO posts (id, title, likes) VALUES (3, 'again', 33)",
    )
    case.run_once()

    case.assert_equal()

    case.write(
        MINIMAL,
        "UPDATE posts SET likes = 0",
        "ALTER TABLE posts ADD COLUMN mood VARCHAR(9) NOT NULL DEFAULT 'calm', MODIFY likes BIGINT UNSIGNED NOT NULL",
        "UPDATE posts SET body = 'changed' WHERE id IN (1, 4)",
        "INSERT INTO posts (id, likes) VALUES (6, 5000000000)",
        NOBLOB,
        "UPDATE posts SET mood = 'wild' WHERE id = 6",
        "DELETE FROM posts WHERE id = 2",
    )
    case.run_once()

    case.assert_equal()
    assert case.records("db")[-1]["stopped"] == {}
