"""Who may do what: roles, everywhere or in some namespaces and subjects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TypeAlias


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    def __str__(self) -> str:
        """Its name, as users files have it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class InNamespace:
    """What is asked for belongs to a namespace: it is a table's, or a table's topic's."""

    name: str

    def __str__(self) -> str:
        """As refusals tell it."""
        return f"namespace {self.name!r}"


@dataclass(frozen=True, slots=True)
class InSubject:
    """What is asked for is a subject that no table has, or of one; its name has its context in it."""

    name: str

    def __str__(self) -> str:
        """As refusals tell it."""
        return f"subject {self.name!r}"


Place: TypeAlias = InNamespace | InSubject


@dataclass(frozen=True, slots=True)
class Grant:
    """A role; everywhere unless it names patterns of namespaces or subjects.

    In a pattern `*` is any characters, `?` one, `[ab]` one of some.
    """

    role: Role
    namespaces: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    @property
    def is_everywhere(self) -> bool:
        """Tell whether it has no bounds."""
        return not self.namespaces and not self.subjects

    def reaches(self, place: Place) -> bool:
        """Tell whether it is for `place`."""
        patterns = self.namespaces if isinstance(place, InNamespace) else self.subjects
        return self.is_everywhere or any(fnmatchcase(place.name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who asks; "" is who does not say who it is."""

    name: str
    grants: tuple[Grant, ...]

    def may_everywhere(self, role: Role) -> bool:
        """Tell whether the user has `role`, or a greater one, without bounds."""
        return any(grant.role >= role and grant.is_everywhere for grant in self.grants)

    def may_somewhere(self, role: Role) -> bool:
        """Tell whether there is any place where the user has `role`."""
        return any(grant.role >= role for grant in self.grants)

    def may_in(self, role: Role, place: Place) -> bool:
        """Tell whether the user has `role` in `place`."""
        return any(grant.role >= role and grant.reaches(place) for grant in self.grants)


# Who serves on loopback and has no users trusts everybody on the machine.
ANYBODY = User("", (Grant(Role.ADMIN),))
NOBODY = User("", ())
