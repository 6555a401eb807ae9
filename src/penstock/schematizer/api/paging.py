"""Lists in pages: a cursor holds the keys of the last row that was told, so what is added meanwhile moves nothing."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sqlalchemy import and_, or_

from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.orm import InstrumentedAttribute, Session
    from sqlalchemy.sql.elements import ColumnElement

    # What a column holds differs from key to key.
    Key = ColumnElement[Any] | InstrumentedAttribute[Any]

T = TypeVar("T")
_INTEGER_MAX = 1 << 62


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a list that is asked for: at most `limit` items, after the cursor `after` ("": from the start)."""

    limit: int
    after: str = ""


def read_page(
    session: Session, query: Select[T], keys: Sequence[Key], window: Window, *, descending: bool = False
) -> tuple[list[T], str]:
    """Return a window of `query`, in the order of `keys`, and the cursor of the next one ("" at the end).

    The keys together are unique. Raises RefusedError for a cursor that is not this list's.
    """
    if window.after:
        query = query.where(_is_after(keys, _decode(window.after, [key.type.python_type for key in keys]), descending))
    ordered = query.order_by(*(key.desc() if descending else key for key in keys))
    rows = session.execute(ordered.add_columns(*keys).limit(window.limit + 1)).all()
    told = rows[: window.limit]
    following = _encode(list(told[-1][1:])) if len(rows) > window.limit else ""
    return [row[0] for row in told], following


def slice_page(items: Sequence[T], window: Window) -> tuple[list[T], str]:
    """Do the same with a list that never changes."""
    first = int(_decode(window.after, [int])[0]) if window.after else 0
    if first < 0:
        _refuse()
    end = first + window.limit
    return list(items[first:end]), _encode([end]) if end < len(items) else ""


def _is_after(keys: Sequence[Key], values: list[str | int], descending: bool) -> ColumnElement[bool]:  # noqa: FBT001 - passed on
    def beyond(key: Key, value: str | int) -> ColumnElement[bool]:
        return key < value if descending else key > value

    pairs = list(zip(keys, values, strict=True))
    return or_(
        *(
            and_(*(same == its for same, its in pairs[:number]), beyond(key, value))
            for number, (key, value) in enumerate(pairs)
        )
    )


def _encode(values: list[str | int]) -> str:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, types: Sequence[type]) -> list[str | int]:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        values = json.loads(raw)
    except (ValueError, RecursionError):
        _refuse()
    if not isinstance(values, list) or [type(value) for value in values] != list(types):
        _refuse()
    if not all(_is_storable(value) for value in values):
        _refuse()
    return values


def _is_storable(value: str | int) -> bool:
    if isinstance(value, int):
        return abs(value) < _INTEGER_MAX
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def _refuse() -> NoReturn:
    raise RefusedError(
        Code.INVALID_CURSOR, "`after` is no cursor of this list", "send the `next` of the page before, as it is"
    )
