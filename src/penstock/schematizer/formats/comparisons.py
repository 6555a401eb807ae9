"""Comparisons of schemas that are made once, however often they are asked for.

A registration is compared before its transaction, while it holds up nobody; the
transaction asks again, and finds what it was answered. Schemas are known by the
object that a text was parsed to, which is one for as long as it is remembered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from penstock.schematizer.formats.schema_types import Form

T = TypeVar("T", bound="Form")
_REMEMBERED_MAX = 2_000
_LOCK = threading.Lock()
# What was compared is kept with the answer: as long as it is there, no other object has its identity.
_REMEMBERED: OrderedDict[Hashable, tuple[object, object, tuple[str, ...]]] = OrderedDict()


def compare_once(
    compare: Callable[[T, T], tuple[str, ...]], reader: T, writer: T, how: Hashable = None
) -> tuple[str, ...]:
    """Return what `compare` says of two schemas of a type; `how` tells the ways of comparing them apart."""
    key = (how, id(reader), id(writer))
    with _LOCK:
        found = _REMEMBERED.get(key)
        if found is not None:
            _REMEMBERED.move_to_end(key)
            return found[2]
    # A schema may name, by an escape, what no answer can: half a surrogate pair.
    problems = tuple(clean(problem) for problem in compare(reader, writer))
    with _LOCK:
        _REMEMBERED[key] = (reader, writer, problems)
        while len(_REMEMBERED) > _REMEMBERED_MAX:
            _REMEMBERED.popitem(last=False)
    return problems
