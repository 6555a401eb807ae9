from __future__ import annotations

import pytest

from penstock.core.mysql.foreign_keys import Cascade, cascades_of
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
    ("rules", "changes"),
    [
        ("", False),
        ("ON DELETE NO ACTION ON UPDATE NO ACTION", False),
        ("ON DELETE RESTRICT", False),
        ("ON DELETE CASCADE", True),
        ("ON DELETE SET NULL ON UPDATE NO ACTION", True),
        ("ON DELETE NO ACTION ON UPDATE CASCADE", True),
        ("ON DELETE RESTRICT ON UPDATE SET NULL", True),
        ("ON UPDATE SET DEFAULT", True),
    ],
)
def test_a_foreign_key_changes_rows_where_it_says_so(rules: str, *, changes: bool) -> None:
    create = CREATE.format(f"CONSTRAINT `of` FOREIGN KEY (`order`, `at`) REFERENCES `orders` (`id`, `at`) {rules},")

    found = cascades_of(CHILD, create)

    assert list(found) == ([Cascade(CHILD, "of", TableId("shop", "orders"))] if changes else [])


def test_a_parent_may_be_in_another_schema() -> None:
    (found,) = cascades_of(
        CHILD, CREATE.format('CONSTRAINT "a`b" FOREIGN KEY ("x") REFERENCES "hr"."people" ("id") ON DELETE CASCADE,')
    )

    assert found == Cascade(CHILD, "a`b", TableId("hr", "people"))
