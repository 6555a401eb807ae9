"""What somebody who asks may do, where it takes the database to know: with subjects and schemas by their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.access import ANYBODY, InSubject, Role, User
from penstock.schematizer.security.demands import InGuid, InSchema
from penstock.schematizer.security.whereabouts import places_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.types import Scope

    from penstock.schematizer.security.demands import Target

USER = "penstock_user"


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one user."""

    user: User

    def may(self, session: Session, role: Role, target: Target) -> bool:
        """Tell whether the user has `role` where `target` is."""
        if self.user.may_everywhere(role):
            return True
        if not self.user.may_somewhere(role):
            return False
        places = places_of(session, target)
        # A schema that is in several places may be read by whoever may read one of them.
        match target:
            case InGuid() | InSchema(in_all=False) if role is Role.READ:
                enough = any
            case _:
                enough = all
        return bool(places) and enough(self.user.may_in(role, place) for place in places)

    def may_read(self, session: Session, subject: str) -> bool:
        """Tell whether the user may know of a subject."""
        return self.may(session, Role.READ, InSubject(subject))

    def require(self, session: Session, role: Role, subject: str) -> None:
        """Raise RefusedError unless the user has `role` in a subject, which need not be there."""
        if not self.may(session, role, InSubject(subject)):
            message = f"user {self.user.name!r} does not have the role {role} in subject {subject!r}"
            raise RefusedError(Code.FORBIDDEN, message, "ask the registry's admin for the role")


def user_of(scope: Scope) -> User:
    """Return who sends a request: somebody without a name where nobody has to sign in."""
    return cast("User", scope.get(USER, ANYBODY))


async def rights_of(request: Request) -> Rights:
    """Return the rights of who sends a request."""
    return Rights(user_of(request.scope))


Asking = Annotated[Rights, Depends(rights_of)]
