"""A session's statements: those about streams and tasks are done here, every other one by fakesnow.

Source: Snowflake user guide, "Introduction to streams": all statements of a
transaction see the same rows of a stream, and its offset moves when the
transaction is committed that used it in a DML statement. "Transactions": each DDL
statement is a transaction by itself, and commits the one that is open.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import duckdb
from snowflake.connector.errors import ProgrammingError

from penstock.dev.snowflake import shows, streams
from penstock.dev.snowflake.answers import answer, render_rows
from penstock.dev.snowflake.functions import replace_functions
from penstock.dev.snowflake.refusals import RefusedError
from penstock.dev.snowflake.renames import parse_rename
from penstock.dev.snowflake.statements import (
    ANY_NAME,
    AbortTransaction,
    AlterTask,
    CreateStream,
    CreateTask,
    Drop,
    EnableDependents,
    EndRetention,
    ExecuteTask,
    Grant,
    Show,
    ShowTransactions,
    parse_statement,
    replace_has_data,
)
from penstock.dev.snowflake.streams import Name, parse_name
from penstock.dev.snowflake.translations import run_plain, split_inserts, tables_of, translate_merge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.dev.snowflake.grants import Grants
    from penstock.dev.snowflake.statements import Definition, Statement
    from penstock.dev.snowflake.tasks import Tasks

_COMPILATION: Final = 1003
_DOES_NOT_EXIST: Final = 2003
_ABORTED: Final = 625
_NULL: Final = 100072
"""A NULL for a column that must not have one."""
_DDL: Final = re.compile(r"\s*(CREATE|ALTER|DROP|TRUNCATE|COMMENT|GRANT|REVOKE)\b", re.IGNORECASE)
_BEGIN: Final = re.compile(
    r"\s*(BEGIN|START)(\s+(WORK|TRANSACTION))?(\s+NAME\s+(?P<name>\w+))?\s*;?\s*$", re.IGNORECASE
)
_COMMIT: Final = re.compile(r"\s*COMMIT\b", re.IGNORECASE)
_ROLLBACK: Final = re.compile(r"\s*ROLLBACK\b", re.IGNORECASE)
_WRITES: Final = re.compile(r"\s*(INSERT|MERGE|UPDATE|DELETE)\b", re.IGNORECASE)
_MERGE: Final = re.compile(r"\s*MERGE\b", re.IGNORECASE)
_INSERT_ALL: Final = re.compile(r"\s*INSERT\s+(ALL|FIRST)\b", re.IGNORECASE)
_HISTORY: Final = re.compile(
    r"TABLE\s*\(\s*(?:\w+\.)?INFORMATION_SCHEMA\.TASK_HISTORY\s*\("
    r"(?:\s*TASK_NAME\s*=>\s*'(?P<name>[^']*)'\s*,?)?(?:\s*RESULT_LIMIT\s*=>\s*(?P<limit>\d+))?\s*\)\s*\)",
    re.IGNORECASE,
)
_PRIVILEGES: Final = re.compile(r"\bINFORMATION_SCHEMA\.TABLE_PRIVILEGES\b", re.IGNORECASE)
_CHANGED_TABLE: Final = re.compile(
    rf"\s*(?:(?P<alter>ALTER)|CREATE\s+OR\s+REPLACE)\s+TABLE\s+(?P<name>{ANY_NAME})(?=\W)", re.IGNORECASE
)
_BINARY: Final = re.compile(r"\bBINARY\s*\(\s*\d+\s*\)", re.IGNORECASE)
"""fakesnow does not take its length."""
_REPLACED_BY_CLONE: Final = re.compile(
    r"(CREATE\s+OR\s+REPLACE\s+TABLE\s+.+?)\s+CLONE\s+(.+?)(?:\s+COPY\s+GRANTS)?\s*;?\s*$", re.IGNORECASE | re.DOTALL
)
"""fakesnow clones into new tables alone. Grants are known by the table's name here, and stay."""
_REFUSALS: Final = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.ParserException,
)
_ROWS: Final = "_penstock_rows"
_numbers = itertools.count(1)
_consuming = threading.RLock()
"""Snowflake lets one wait that uses a stream which another transaction uses."""


class Session:
    """What one connection has open, beside fakesnow's own."""

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - fakesnow's own
        tasks: Tasks,
        grants: Grants,
        execute: Callable[..., Any],
        sessions: Callable[[], Sequence[Session]],
    ) -> None:
        """`execute` is fakesnow's, of a cursor of `connection`; `sessions` gives all that there are."""
        self._connection = connection
        self._tasks = tasks
        self._grants = grants
        self._execute = execute
        self._sessions = sessions
        self._open = False
        self._name_of_open = ""
        self._number = next(_numbers)
        self._ends: dict[Name, int] = {}

    def execute(self, cursor: Any, command: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - as fakesnow has it
        """Run a statement."""
        try:
            statement = parse_statement(command)
            if statement is not None:
                return answer(cursor, self._do(statement))
            return self._pass_on(cursor, self._rewritten(command), *rest, **more)
        except RefusedError as error:
            message = f"SQL compilation error:\n{error}"
            errno = _DOES_NOT_EXIST if "does not exist" in message else _COMPILATION
            raise ProgrammingError(msg=message, errno=errno, sqlstate="42000") from error
        except (duckdb.TransactionException, duckdb.ConstraintException) as error:
            self._rollback()
            if "NOT NULL constraint" in str(error):
                message = f"NULL result in a non-nullable column: {error}"
                raise ProgrammingError(msg=message, errno=_NULL, sqlstate="22000") from error
            message = f"Statement was aborted because of another transaction: {error}"
            raise ProgrammingError(msg=message, errno=_ABORTED, sqlstate="57014") from error

    def transactions(self) -> list[dict[str, Any]]:
        """Return the transaction that is open, as SHOW TRANSACTIONS has it, if there is one."""
        ours = {"id": self._number, "session": self._number, "name": self._name_of_open, "state": "running"}
        return [ours] if self._open else []

    def abort(self, number: int) -> None:
        """Roll back, if `number` is that of the transaction that is open."""
        if self._open and number == self._number:
            self._rollback()

    @property
    def _duck(self) -> streams.Duck:
        return self._connection._duck_conn  # type: ignore[no-any-return]  # noqa: SLF001 - fakesnow has no other way

    def _pass_on(self, cursor: Any, command: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        def execute() -> Any:  # noqa: ANN401
            return self._execute(cursor, command, *rest, **more)

        if _COMMIT.match(command):
            return self._commit(execute)
        if _ROLLBACK.match(command):
            self._open, self._ends = False, {}
            return execute()
        if begin := _BEGIN.match(command):
            if not self._open:
                self._duck.execute("BEGIN TRANSACTION")
                self._name_of_open = (begin["name"] or f"unnamed {self._number}").upper()
            self._open = True
            return answer(cursor, [{"status": "Statement executed successfully."}])
        if _DDL.match(command) and self._open:
            self._commit(lambda: self._duck.execute("COMMIT"))
        if rename := parse_rename(command):
            return answer(cursor, [{"status": rename.carry_out(self._duck, self._name)}])
        used = self._used(command) if _WRITES.match(command) else {}
        streams.require_fresh(self._duck, used)
        if used and not self._open:
            return self._consume(used, lambda: self._run(cursor, command, *rest, **more))
        self._see(used)
        return self._run(cursor, command, *rest, **more)

    def _change_table(self, cursor: Any, command: str, changed: re.Match[str], *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        """Alter or replace a table. Standard streams on it follow the first, and are stale behind the second."""
        base = self._name(changed["name"])
        if changed["alter"]:
            for copy in streams.copies_of(self._duck, base):
                self._execute(cursor, f"{command[: changed.start('name')]}{copy}{command[changed.end('name') :]}")
        answer = self._execute(cursor, command, *rest, **more)
        if changed["alter"]:
            streams.renew_views(self._duck, base)
        else:
            streams.end_copies(self._duck, base)
        return answer

    def _run(self, cursor: Any, command: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        """Run a statement as fakesnow does; but MERGE as DuckDB does, which needs no other database for it."""
        if changed := _CHANGED_TABLE.match(command):
            return self._change_table(cursor, command, changed, *rest, **more)
        if _INSERT_ALL.match(command):
            return self._insert_all(cursor, command, more.get("binding_params"))
        if not _MERGE.match(command):
            return run_plain(cursor, self._execute, command, *rest, **more)
        try:
            ((rows,),) = self._duck.execute(translate_merge(cursor, command)).fetchall()
        except _REFUSALS as error:
            raise RefusedError(str(error)) from error
        return answer(cursor, [{"number of rows affected": rows}])

    def _insert_all(self, cursor: Any, command: str, values: Sequence[Any] | None) -> Any:  # noqa: ANN401
        """Run the query once, and insert each of its rows where the conditions are true. In a transaction."""
        if not self._open and not self._ends:
            message = "this stand-in has INSERT ALL in a transaction alone"
            raise RefusedError(message)
        query, inserts = split_inserts(command)
        run_plain(cursor, self._execute, query, binding_params=values)
        self._duck.register(_ROWS, cursor._arrow_table)  # noqa: SLF001 - fakesnow's
        try:
            rows = sum(self._duck.execute(each.format(_ROWS)).fetchall()[0][0] for each in inserts)
        finally:
            self._duck.unregister(_ROWS)
        return answer(cursor, [{"number of rows inserted": rows}])

    def _consume(self, used: dict[Name, str], work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Run a statement that uses streams, as a transaction."""
        with _consuming:
            self._duck.execute("BEGIN TRANSACTION")
            try:
                self._see(used)
                answer = work()
                streams.advance(self._duck, self._ends)
                self._duck.execute("COMMIT")
            except BaseException:
                self._rollback()
                raise
            finally:
                self._ends = {}
            return answer

    def _see(self, used: dict[Name, str]) -> None:
        for name, base in used.items():
            if name not in self._ends:
                self._ends[name] = streams.read_end(self._duck, base)

    def _commit(self, commit: Callable[[], Any]) -> Any:  # noqa: ANN401
        ends, self._ends = self._ends, {}
        if ends:
            streams.advance(self._duck, ends)
        self._open = False
        return commit()

    def _rollback(self) -> None:
        self._open, self._ends = False, {}
        try:
            self._duck.execute("ROLLBACK")
        except duckdb.TransactionException:
            return

    def _used(self, command: str) -> dict[Name, str]:
        """Return the streams that a statement reads, with their tables."""
        database = self._connection.database
        if not database:
            return {}
        names = {self._whole(parts) for parts in tables_of(command)}
        used: dict[Name, str] = {}
        for one in {name.database for name in names}:
            used |= self._streams(one, names)
        return used

    def _whole(self, parts: Sequence[str]) -> Name:
        """Return a name in full; what it does not say is the session's."""
        ours = [self._connection.database or "", self._connection.schema or "", ""]
        return Name(*ours[: 3 - len(parts)], *parts)

    def _streams(self, database: str, names: set[Name]) -> dict[Name, str]:
        try:
            return streams.find_streams(self._duck, database, names)
        except duckdb.CatalogException:
            return {}

    def _rewritten(self, command: str) -> str:
        command = replace_functions(replace_has_data(command))
        if _DDL.match(command):
            command = _REPLACED_BY_CLONE.sub(r"\1 AS SELECT * FROM \2", _BINARY.sub("BINARY", command))
        if _PRIVILEGES.search(command):
            rows = render_rows(self._grants.on_tables(self._connection.database or ""), shows.PRIVILEGE_COLUMNS)
            command = _PRIVILEGES.sub(lambda _: self._readable("privileges", rows), command)
        return _HISTORY.sub(lambda match: self._history(match["name"], match["limit"]), command)

    def _history(self, name: str | None, limit: str | None) -> str:
        rows = shows.history_rows(self._tasks, self._name(name).name if name else None, limit)
        return self._readable("runs", render_rows(rows, shows.HISTORY_COLUMNS))

    def _readable(self, name: str, rows: Any) -> str:  # noqa: ANN401 - a table of Arrow's
        """Let the next statement read rows, and return what it calls them."""
        self._duck.register(f"_penstock_{name}", rows)
        return f'"temp"."main"."_penstock_{name}"'

    def _name(self, text: str) -> Name:
        return parse_name(text, self._connection.database or "", self._connection.schema or "")

    def _do(self, statement: Statement) -> list[dict[str, Any]]:
        """Do what is about streams and tasks, and return the rows that it answers."""
        match statement:
            case Show(kind, like, schema):
                return self._show(kind, like, schema)
            case ShowTransactions():
                return [shown for session in self._sessions() for shown in session.transactions()]
            case AbortTransaction(number):
                for session in self._sessions():
                    session.abort(number)
                return [{"status": "Transaction has been aborted."}]
            case _:
                if self._open:
                    self._commit(lambda: self._duck.execute("COMMIT"))
                return [{"status": self._define(statement)}]

    def _define(self, statement: Definition) -> str:
        match statement:
            case CreateStream(text, table):
                name, base = self._name(text), self._name(table)
                streams.require_table(self._duck, base)
                streams.prepare(self._duck, name.database)
                answer = streams.create_stream(self._duck, name, base, statement)
            case Grant():
                answer = self._grants.take(self._name(statement.name), statement)
            case EndRetention(text):
                streams.prepare(self._duck, self._name(text).database)
                streams.make_stale(self._duck, self._name(text))
                answer = "Statement executed successfully."
            case CreateTask(text):
                answer = self._tasks.create(self._name(text), statement, tuple(map(self._name, statement.after)))
            case AlterTask(text, state, if_exists):
                if not if_exists or self._tasks.has(self._name(text)):
                    self._tasks.alter(self._name(text), state, time.monotonic())
                answer = "Statement executed successfully."
            case EnableDependents(text):
                self._tasks.enable(self._name(text), time.monotonic())
                answer = "true"
            case ExecuteTask(text):
                task = self._tasks.find_root(self._name(text))
                threading.Thread(
                    target=self._tasks.run, args=[task], kwargs={"by_schedule": False}, daemon=True
                ).start()
                answer = f"Task {task.name.name} is scheduled to run immediately."
            case Drop(kind, text, if_exists):
                answer = self._drop(kind, self._name(text), if_exists=if_exists)
        return answer

    def _drop(self, kind: str, name: Name, *, if_exists: bool) -> str:
        if kind == "STREAM":
            streams.prepare(self._duck, name.database)
        dropped = streams.drop_stream(self._duck, name) if kind == "STREAM" else self._tasks.drop(name)
        if not dropped and not if_exists:
            message = f"{kind.capitalize()} '{name.name}' does not exist or not authorized."
            raise RefusedError(message)
        return f"{name.name} successfully dropped."

    def _show(self, kind: str, like: str, schema: str) -> list[dict[str, Any]]:
        where = parse_name(
            f"{schema}.x" if schema else "x", self._connection.database or "", self._connection.schema or ""
        )
        pattern = re.compile(re.escape(like).replace("%", ".*").replace("_", ".") if like else ".*", re.IGNORECASE)
        rows = shows.stream_rows(self._duck, where) if kind == "STREAM" else shows.task_rows(self._tasks, where)
        return [row for row in rows if pattern.fullmatch(row["name"])]
