"""Which schemas the keys of one table may have in one topic: a single one, for its id is part of their bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable


def require_same_key(subject: str, known: Iterable[str], schema: str) -> None:
    """Raise PenstockError where keys of the same table were last written with another schema than `schema`.

    `known` are the schemas of the subject, oldest first. The same row would have another
    key from here on: in another partition, so that its changes overtake each other, and
    beside the old one where the topic is compacted. Tables that share a topic have each their own.
    """
    wanted = json.loads(schema)
    table = wanted["namespace"]
    before = [each for each in map(json.loads, known) if isinstance(each, dict) and each.get("namespace") == table]
    if before and before[-1] != wanted:
        was, now = (", ".join(map(_declared, each["fields"])) for each in (before[-1], wanted))
        topic, name = subject.removesuffix("-key"), table.removeprefix("penstock.")
        message = f"the key of {name} was ({was}) in {topic}, and is ({now}): its rows would get other keys"
        hint = (
            "name another topic in `to`, where changes go on, and have the table read again, so that it has all rows: "
            "penstock snapshot FILE TABLE"
        )
        raise PenstockError(message, hint)


def _declared(field: dict[str, object]) -> str:
    return f"{field['name']} {json.dumps(field['type'])}"
