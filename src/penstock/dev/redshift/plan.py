"""What is to be done for a statement: what PostgreSQL is sent in its place, or what the stand-in does itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.dev.redshift.backend import Backend
    from penstock.dev.redshift.cluster import Cluster


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """Where an action runs: a session's backend, in the simple or the extended protocol, with what it may tell."""

    backend: Backend
    cluster: Cluster
    database: str
    user: str
    sync: bool
    in_block: bool
    notices: list[str] = field(default_factory=list)

    async def rows(self, sql: str) -> list[list[str | None]]:
        """Run a query of the stand-in's own."""
        return await self.backend.rows(sql, sync=self.sync)


class Action(Protocol):
    """What the stand-in does itself."""

    async def run(self, place: TargetPlace) -> str:
        """Do it; the command's tag. Raises RedshiftError."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement understood.

    `sql` goes to PostgreSQL unless there is an `action`. `never_in_block` names the
    statement where Redshift refuses it inside BEGIN ... END. `locks` are tables that
    it writes, quoted. `commits`: the transaction ends with it.
    """

    text: str
    sql: str = ""
    action: Action | None = None
    never_in_block: str = ""
    locks: tuple[str, ...] = ()
    commits: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """Redshift has something to do here that a PostgreSQL has not."""

    tag: str

    async def run(self, place: TargetPlace) -> str:
        """Nothing."""
        del place
        return self.tag


@dataclass(frozen=True, slots=True)
class Run:
    """Some statements in order, under one tag, all or nothing."""

    tag: str
    statements: tuple[str, ...]

    async def run(self, place: TargetPlace) -> str:
        """Run them in the client's transaction, else in one of their own."""
        if place.in_block or not place.sync:
            for sql in self.statements:
                await place.rows(sql)
            return self.tag
        await place.rows("BEGIN")
        try:
            for sql in self.statements:
                await place.rows(sql)
        except BaseException:
            await place.rows("ROLLBACK")
            raise
        await place.rows("COMMIT")
        return self.tag
