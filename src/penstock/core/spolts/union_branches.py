"""Unions of more than null and one type: the branch that takes a value as it is, where the codec takes the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import TYPE_CHECKING, Any, Final

from fastavro.validation import validate

if TYPE_CHECKING:
    from penstock.core.spolts.exact_leaves import Convert

_NAMED: Final = frozenset({"record", "error", "fixed", "enum"})
_PLAIN: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_RECORD_HINT: Final = "-type"
"""With this key fastavro takes the name of a record that a dict is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a union that is not null: as fastavro has parsed it, and what to do to its values."""

    schema: Any
    convert: Convert | None

    @property
    def type(self) -> object:
        """The name of its type; that of a named type where it was told before."""
        return self.schema["type"] if isinstance(self.schema, Mapping) else self.schema

    @property
    def name(self) -> object:
        """What fastavro calls it where a tuple says which branch a value is of."""
        return self.schema["name"] if self.type in _NAMED else self.type

    def exact(self, value: object) -> object:
        """Return a value as it is to be encoded. Raises ValueError."""
        return value if self.convert is None else self.convert(value)


def in_union(value: object, branches: Sequence[Branch]) -> object:
    """Return a value as it is to be encoded, with the branch's name where the codec would take another.

    Raises ValueError where every branch that takes the value would change it.
    """
    match value:
        case bool():
            return value
        case (str(name), inner) if isinstance(value, tuple):
            found = next((branch for branch in branches if branch.name == name), None)
            return value if found is None else (name, found.exact(inner))
        case int() | float() | date() | time():
            return _scalar(value, [branch for branch in branches if branch.type in _PLAIN])
        case Mapping():
            return _only([branch for branch in branches if _holds(branch, value)], value)
        case list():
            return _only([branch for branch in branches if branch.type == "array"], value)
        case _:
            return value


def _scalar(value: object, branches: Sequence[Branch]) -> object:
    refused: ValueError | None = None
    for branch in branches:
        if not validate(value, branch.schema, raise_errors=False):
            continue
        try:
            exact = branch.exact(value)
        except ValueError as error:
            refused = refused or error
            continue
        # Behind one that was passed by, a number says which branch is its own. A time cannot: fastavro looks at
        # the first branch for it.
        if refused is None:
            return exact
        if isinstance(value, int | float):
            return (branch.name, exact)
    if refused is not None:
        raise refused
    return value


def _only(branches: Sequence[Branch], value: object) -> object:
    exact = [branch.exact(value) for branch in branches]
    return exact[0] if len(exact) == 1 else value


def _holds(branch: Branch, value: Mapping[Any, object]) -> bool:
    if branch.type == "map":
        return True
    if branch.type != "record":
        return False
    return value.keys() - {_RECORD_HINT} <= {field["name"] for field in branch.schema["fields"]}
