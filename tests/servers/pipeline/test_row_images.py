"""Rows that the source logs without all of their columns, from end to end."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli.joinery import app as joinery

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


LEVELS = "CREATE TABLE levels (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL DEFAULT 'a level', about TEXT)"
JOINED = (
    "SELECT p.id, p.title, p.body, p.likes, p.price, l.name, l.about FROM posts p JOIN levels l ON l.id = p.likes "
    "WHERE p.title <> 'hidden' ORDER BY p.id"
)


def with_join(case: PipelineCase) -> str:
    """Add a join of posts and levels to a case; return its name."""
    name = f"levels_{case.database}"
    join = {
        "join": [
            {
                "topic": f"{case.database}.posts",
                "join_keys": ["likes"],
                "exclude_fields": ["doubled", "seen"],
                "where": "title <> 'hidden'",
            },
            {
                "topic": f"{case.database}.levels",
                "join_keys": ["id"],
                "aliases": [{"from": "id", "to": "likes"}, {"from": "name", "to": "level"}],
            },
        ],
        "output": {"namespace": "joined", "source": name, "pkey": ["id"]},
    }
    (case.file.parent / "levels.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(case.file.read_text())
    config["joins"] = ["levels.yaml"]
    config["links"].append({"from": name, "to": "warehouse"})
    case.file.write_text(yaml.safe_dump(config))
    return name


def assert_joined(case: PipelineCase, name: str) -> None:
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(JOINED)
        expected = [tuple(row) for row in cursor.fetchall()]
    query = f"SELECT id, title, body, likes, price, level, about FROM joined.{name} ORDER BY id"
    assert expected
    assert [tuple(row.values()) for row in case.query(query)] == expected


@pytest.mark.nightly
def test_what_a_row_lacks_is_joined_as_it_was(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2, row_images="partial")
    name = with_join(case)
    case.write(
        POSTS,
        LEVELS,
        "INSERT INTO posts (id, body, likes) VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3), (7, 'seven', 1)",
        "INSERT INTO levels (id, about) VALUES (1, 'low'), (2, 'mid')",
    )
    case.run_once()
    assert_joined(case, name)

    case.write(
        MINIMAL,
        "UPDATE posts SET likes = 2 WHERE id = 1",
        "UPDATE posts SET body = NULL, price = NULL WHERE id = 2",
        "UPDATE posts SET title = 'hidden' WHERE id = 7",
        "INSERT INTO posts (id, likes) VALUES (4, 1), (5, 9)",
        "UPDATE levels SET about = 'in the middle' WHERE id = 2",
        "INSERT INTO levels (id) VALUES (9)",
        "DELETE FROM posts WHERE id = 3",
        NOBLOB,
        "UPDATE posts SET title = 'four' WHERE id = 4",
    )
    case.run_once()
    assert_joined(case, name)

    case.write(
        MINIMAL,
        "UPDATE posts SET price = 7 WHERE id = 7",
        "UPDATE posts SET title = 'seen' WHERE id = 7",
        "UPDATE levels SET name = 'nine' WHERE id = 9",
        "DELETE FROM levels WHERE id = 1",
        "INSERT INTO levels (id, about) VALUES (1, 'again')",
    )
    case.run_once()
    assert_joined(case, name)
    asked = CliRunner().invoke(joinery, ["verify", str(case.file)])
    assert asked.exit_code == 0, asked.output
