"""Names of topics.

Source: Kafka's `Topic` rules: letters, digits, ".", "_" and "-", at most 249 of
them; and a broker refuses a topic whose name differs from another's only in "."
against "_", because both would name the same metric.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.tables import TableId

_LENGTH_MAX = 249
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


def plan_topic_name(namespace: str, table: TableId, ordinal: int) -> str:
    """Return `<namespace>.<schema>.<table>`, with `.v<ordinal>` from the second on.

    What Kafka does not allow becomes "_", so two tables may get one name here;
    it may also be too long. See `is_legal` and `plan_distinct_topic_name`.
    """
    successor = f".v{ordinal}" if ordinal > 1 else ""
    return _ILLEGAL.sub("_", f"{namespace}.{table.schema}.{table.name}{successor}")


def plan_distinct_topic_name(namespace: str, table: TableId, ordinal: int) -> str:
    """Return the name for a table whose plain one is taken or too long: with a hash of what the table is called."""
    called = f"{namespace}\0{table.schema}\0{table.name}"
    digest = hashlib.sha256(called.encode()).hexdigest()[:12]
    successor = f".v{ordinal}" if ordinal > 1 else ""
    plain = plan_topic_name(namespace, table, 1)
    return f"{plain[: _LENGTH_MAX - len(successor) - len(digest) - 1]}-{digest}{successor}"


def is_legal(name: str) -> bool:
    """Tell whether Kafka takes a topic of this name."""
    return 0 < len(name) <= _LENGTH_MAX and _ILLEGAL.search(name) is None and name not in {".", ".."}


def collision_name(topic: str) -> str:
    """Return what two topics must not have in common."""
    return topic.replace(".", "_")
