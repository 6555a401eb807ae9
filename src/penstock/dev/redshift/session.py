"""One session: one task reads the client, does what it asks and reads PostgreSQL's answer, one message after another.

Nothing else reads or writes either connection, and a message is answered to its
end before the next one is read. So nothing can come between a failure and the
ReadyForQuery that follows it: a failed COPY cannot look like a success.

After a failure in the extended protocol everything up to the client's Sync is
skipped, by PostgreSQL too: where the stand-in itself refused, PostgreSQL is made
to fail, so that the transaction is lost there as well.

Source: PostgreSQL documentation, "Message Flow".
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift import late_views
from penstock.dev.redshift.control import take_fault
from penstock.dev.redshift.errors import refuse, translate
from penstock.dev.redshift.plan import Plan, TargetPlace
from penstock.dev.redshift.results import translate_columns
from penstock.dev.redshift.statements import plan_statement
from penstock.dev.redshift.tokens import split
from penstock.dev.redshift.wire import Message, RedshiftError, cut_string, pack_notice, pack_tag, parse_fields

if TYPE_CHECKING:
    from penstock.dev.redshift.backend import Backend
    from penstock.dev.redshift.client import Client
    from penstock.dev.redshift.cluster import Cluster

_LAST = {
    b"P": frozenset({b"1"}),
    b"B": frozenset({b"2"}),
    b"D": frozenset({b"T", b"n"}),
    b"E": frozenset({b"C", b"s", b"I"}),
    b"C": frozenset({b"3"}),
}
_ABORTED = "current transaction is aborted, commands ignored until end of transaction block"
_ENDS = ("ROLLBACK", "ABORT", "COMMIT", "END")
_NO_PARAMETERS = struct.pack("!H", 0)


@dataclass(frozen=True, slots=True)
class Login:
    """Who is connected to which database."""

    user: str
    database: str


class Session:
    """A client that has logged in, and its PostgreSQL."""

    def __init__(self, client: Client, backend: Backend, cluster: Cluster, login: Login) -> None:
        """Join the two; nothing is read yet."""
        self._client = client
        self._backend = backend
        self._cluster = cluster
        self._login = login
        self._statements: dict[str, Plan] = {}
        self._portals: dict[str, Plan] = {}
        self._skipping = False
        self._in_block = False
        backend.forward = client.tell

    async def run(self) -> None:
        """Serve until the client goes. ConnectionError and asyncio.IncompleteReadError where PostgreSQL has gone."""
        known = self._cluster.late_views
        if self._login.database not in known:
            known[self._login.database] = bool(await self._backend.rows(late_views.FIND, sync=True))
        while (message := await self._client.read()) is not None:
            if message.kind == b"Q":
                await self._simple(message)
            elif message.kind == b"S":
                await self._sync()
            elif not self._skipping:
                await self._extended(message)

    # The simple protocol.

    async def _simple(self, message: Message) -> None:
        self._skipping = False
        text, _ = cut_string(message.body)
        try:
            statements = split(text)
            plans = [plan_statement(statement) for statement in statements]
            if not plans:
                self._client.tell(Message(b"I"))
            await self._several(plans)
        except RedshiftError as error:
            await self._refuse(error, sync=True)
        self._in_block = self._backend.status != b"I"
        self._client.tell(Message(b"Z", self._backend.status))
        await self._client.flush()

    async def _several(self, plans: list[Plan]) -> None:
        """Statements of one query string are one transaction, unless they say otherwise."""
        together = len(plans) > 1 and not self._in_block and not any(_controls(plan) for plan in plans)
        if together:
            await self._backend.rows("BEGIN", sync=True)
        try:
            for plan in plans:
                self._in_block = self._backend.status != b"I"
                if not await self._one(plan, together=together):
                    break
            else:
                if together:
                    await self._backend.rows("COMMIT", sync=True)
        finally:
            if together and self._backend.status != b"I":
                await self._backend.rows("ROLLBACK", sync=True)

    async def _one(self, plan: Plan, *, together: bool) -> bool:
        """One statement of a query string; False if PostgreSQL has told an error."""
        await self._before(plan, in_block=self._in_block and not together, sync=True)
        if plan.action is not None:
            await self._act(plan, sync=True)
            return True
        whole = await self._backend.simple(await self._with_late_views(plan, sync=True), self._told)
        if whole and plan.commits and self._backend.status == b"T":
            await self._backend.rows("COMMIT", sync=True)
        await self._client.flush(only_if_much=True)
        return whole

    # The extended protocol.

    async def _extended(self, message: Message) -> None:
        try:
            match message.kind:
                case b"P":
                    await self._parse(message)
                case b"B":
                    await self._bind(message)
                case b"D":
                    await self._describe(message)
                case b"E":
                    await self._execute(message)
                case b"C":
                    await self._close(message)
                case b"H":
                    await self._client.flush()
                case _:
                    what = f"the stand-in does not know messages of kind {message.kind!r}"
                    raise refuse(what, sqlstate="08P01")
        except RedshiftError as error:
            self._skipping = True
            await self._refuse(error, sync=False)
        await self._client.flush(only_if_much=True)

    async def _sync(self) -> None:
        self._skipping = False
        await self._backend.sync()
        self._in_block = self._backend.status != b"I"
        self._client.tell(Message(b"Z", self._backend.status))
        await self._client.flush()

    async def _parse(self, message: Message) -> None:
        name, at = cut_string(message.body)
        text, rest = cut_string(message.body, at)
        statements = split(text)
        if len(statements) > 1:
            what = "cannot insert multiple commands into a prepared statement"
            raise refuse(what, sqlstate="42601")
        plan = plan_statement(statements[0]) if statements else Plan("", "")
        if plan.action is None:
            sql = await self._with_late_views(plan, sync=False)
            body = f"{name}\0{sql}\0".encode() + message.body[rest:]
            if not await self._ask(Message(b"P", body)):
                return
        else:
            self._check_not_aborted(plan)
            self._client.tell(Message(b"1"))
        self._statements[name] = plan

    async def _bind(self, message: Message) -> None:
        portal, at = cut_string(message.body)
        name, _ = cut_string(message.body, at)
        plan = self._statements.get(name)
        if plan is None or plan.action is None:
            if not await self._ask(message):
                return
        else:
            # As a new portal of this name would, so that nothing is in the way of what the stand-in does.
            await self._backend.ask(Message(b"C", b"P" + portal.encode() + b"\0"), _LAST[b"C"], lambda _answer: None)
            self._client.tell(Message(b"2"))
        self._portals[portal] = plan or Plan("")

    async def _describe(self, message: Message) -> None:
        name, _ = cut_string(message.body, 1)
        of_statement = message.body[:1] == b"S"
        plan = (self._statements if of_statement else self._portals).get(name)
        if plan is None or plan.action is None:
            await self._ask(message)
            return
        if of_statement:
            self._client.tell(Message(b"t", _NO_PARAMETERS))
        self._client.tell(Message(b"n"))

    async def _execute(self, message: Message) -> None:
        name, _ = cut_string(message.body)
        plan = self._portals.get(name, Plan(""))
        await self._before(plan, in_block=self._in_block, sync=False)
        if plan.action is not None:
            await self._act(plan, sync=False)
        elif await self._ask(message):
            words = plan.text.strip().upper()
            self._in_block = words.startswith(("BEGIN", "START")) or (self._in_block and not words.startswith(_ENDS))
            if plan.commits and self._in_block:
                await self._backend.rows("COMMIT", sync=False)
                self._in_block = False

    async def _close(self, message: Message) -> None:
        name, _ = cut_string(message.body, 1)
        plan = (self._statements if message.body[:1] == b"S" else self._portals).pop(name, None)
        if plan is None or plan.action is None:
            await self._ask(message)
        else:
            self._client.tell(Message(b"3"))

    # Both.

    async def _with_late_views(self, plan: Plan, *, sync: bool) -> str:
        if not self._cluster.late_views[self._login.database] or self._backend.status == b"E":
            return plan.sql
        return late_views.put_in(plan.sql, late_views.read_views(await self._backend.rows(late_views.LIST, sync=sync)))

    async def _before(self, plan: Plan, *, in_block: bool, sync: bool) -> None:
        """What comes before a statement: bad states, rules of transactions, locks."""
        fault = take_fault(self._cluster.home, plan.text)
        if fault is not None:
            raise fault
        if plan.never_in_block and in_block:
            self._check_not_aborted(plan)
            message = f"{plan.never_in_block} cannot run inside a transaction block"
            raise refuse(message, sqlstate="25001")
        if plan.locks and self._in_block and self._backend.status != b"E":
            # "Write and read/write operations": writers of one table wait for each other.
            for table in plan.locks:
                await self._backend.rows(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE", sync=sync)

    async def _act(self, plan: Plan, *, sync: bool) -> None:
        """What the stand-in does itself."""
        assert plan.action is not None  # noqa: S101 - the caller looked
        self._check_not_aborted(plan)
        place = TargetPlace(
            self._backend, self._cluster, self._login.database, self._login.user, sync=sync, in_block=self._in_block
        )
        tag = await plan.action.run(place)
        for notice in place.notices:
            self._client.tell_raw(pack_notice(notice))
        self._client.tell_raw(pack_tag(tag))

    def _check_not_aborted(self, plan: Plan) -> None:
        if self._backend.status == b"E" and not plan.text.strip().upper().startswith(_ENDS):
            raise refuse(_ABORTED, sqlstate="25P02")

    async def _ask(self, message: Message) -> bool:
        """Hand a message to PostgreSQL and its answers to the client; False, and all is skipped, if it failed."""
        self._skipping = not await self._backend.ask(message, _LAST[message.kind], self._told)
        return not self._skipping

    async def _refuse(self, error: RedshiftError, *, sync: bool) -> None:
        """Tell the client, after PostgreSQL knows that the transaction is lost."""
        if error.fatal:
            raise error
        if not sync or self._backend.status == b"T":
            await self._backend.poison(sync=sync)
        self._client.tell_raw(error.pack())

    def _told(self, message: Message) -> None:
        """Pass on what PostgreSQL answers, in Redshift's words."""
        match message.kind:
            case b"E":
                error = translate(parse_fields(message.body))
                self._client.tell_raw(error.pack())
            case b"T":
                self._client.tell(Message(b"T", translate_columns(message.body, self._cluster.types)))
            case _:
                self._client.tell(message)


def _controls(plan: Plan) -> bool:
    """Whether a statement begins or ends a transaction, or cannot run inside one."""
    words = plan.text.strip().upper()
    return words.startswith((*_ENDS, "BEGIN", "START")) or bool(plan.never_in_block) or plan.commits


async def serve_until_gone(session: Session, client: Client, backend: Backend) -> None:
    """Run a session to its end, however that comes; PostgreSQL then rolls back what is open."""
    try:
        await session.run()
        await client.close()
    except RedshiftError as error:
        await client.close(error)
    except (asyncio.IncompleteReadError, ConnectionError):
        await client.close()
    finally:
        backend.close()
