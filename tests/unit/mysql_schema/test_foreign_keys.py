from __future__ import annotations

import pytest

from penstock.core.mysql.statements.foreign_keys import Cascade, cascades_of, reached_by
from penstock.core.tables import TableId

CHILD = TableId("shop", "lines")
CREATE = """\
CREATE TABLE `lines` (
  `order` int(11) DEFAULT NULL COMMENT 'CONSTRAINT `no` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE',
  `at` timestamp NULL DEFAULT NULL ON UPDATE current_timestamp(),
  KEY `of` (`order`),
  {}
  CONSTRAINT `stays` FOREIGN KEY (`order`) REFERENCES `other` (`id`),
  CONSTRAINT `positive` CHECK (`order` > 0)
) ENGINE=InnoDB
"""


@pytest.mark.parametrize(
    ("rules", "on_delete", "on_update"),
    [
        ("", "", ""),
        ("ON DELETE NO ACTION ON UPDATE NO ACTION", "", ""),
        ("ON DELETE RESTRICT", "", ""),
        ("ON DELETE CASCADE", "CASCADE", ""),
        ("ON DELETE SET NULL ON UPDATE NO ACTION", "SET NULL", ""),
        ("ON DELETE NO ACTION ON UPDATE CASCADE", "", "CASCADE"),
        ("ON DELETE RESTRICT ON UPDATE SET NULL", "", "SET NULL"),
        ("ON UPDATE SET DEFAULT", "", "SET DEFAULT"),
    ],
)
def test_a_foreign_key_changes_rows_where_it_says_so(rules: str, on_delete: str, on_update: str) -> None:
    create = CREATE.format(f"CONSTRAINT `of` FOREIGN KEY (`order`, `at`) REFERENCES `orders` (`id`, `at`) {rules},")

    found = cascades_of(CHILD, create)

    expected = Cascade(
        CHILD, "of", TableId("shop", "orders"), ("order", "at"), ("id", "at"), on_delete=on_delete, on_update=on_update
    )
    assert list(found) == ([expected] if on_delete or on_update else [])


def test_a_parent_may_be_in_another_schema() -> None:
    (found,) = cascades_of(
        CHILD, CREATE.format('CONSTRAINT "a`b" FOREIGN KEY ("x") REFERENCES "hr"."people" ("id") ON DELETE CASCADE,')
    )

    assert found == Cascade(CHILD, "a`b", TableId("hr", "people"), ("x",), ("id",), on_delete="CASCADE")


A, B, C, D = (TableId("shop", name) for name in "abcd")
KEYS = [
    Cascade(B, "1", A, ("a_id",), ("id",), on_delete="CASCADE"),
    Cascade(C, "2", B, ("b_id",), ("id",), on_delete="SET NULL"),
    Cascade(D, "3", C, ("c_b",), ("b_id",), on_update="CASCADE"),
    Cascade(A, "4", D, ("d_id",), ("other",), on_update="CASCADE"),
]


@pytest.mark.parametrize(
    ("deleted", "updated", "reached"),
    [
        ([A], {}, {B, C, D}),
        ([B], {}, {C, D}),
        ([C], {}, set()),
        ([], {A: {"id"}}, set()),
        ([], {C: {"b_id"}}, {D}),
        ([], {C: {"name"}}, set()),
        ([], {}, set()),
    ],
)
def test_what_a_foreign_key_sets_off_goes_on_from_there(
    deleted: list[TableId], updated: dict[TableId, set[str]], reached: set[TableId]
) -> None:
    assert {step.cascade.child for step in reached_by(deleted, updated, KEYS)} == reached


def test_foreign_keys_in_a_circle_end() -> None:
    circle = [Cascade(A, "1", B, ("x",), ("y",), "CASCADE", "CASCADE"), Cascade(B, "2", A, ("y",), ("x",), "CASCADE")]

    assert {step.cascade.child for step in reached_by([A], {B: {"y"}}, circle)} == {A, B}


def test_a_step_is_direct_where_the_log_has_the_rows_of_the_parent() -> None:
    steps = reached_by([A], {C: {"b_id"}}, KEYS)

    assert {(step.cascade.name, step.verb, step.is_direct) for step in steps} == {
        ("1", "DELETE", True),
        ("2", "DELETE", False),
        ("3", "UPDATE", True),
        ("3", "UPDATE", False),
    }
