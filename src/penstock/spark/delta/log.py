"""The logs of Delta tables, through the Delta library in Spark's JVM.

Python's own interface to Delta has no commit without rows, none of columns
together with a number, and no way to ask for a number. The library's classes
have, and its own commands are made of them: `DeltaLog`, `OptimisticTransaction`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import quote_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


_COMMITS_READ = 20


class _Known(NamedTuple):
    """A version of a table, and the owner's highest number in it."""

    version: int
    number: int | None


class DeltaLogs:
    """Tables by their paths, as one owner sees and commits them; `owner` is the name that its numbers go by."""

    def __init__(self, session: SparkSession, owner: str, read_commit: Callable[[str, int], bytes | None]) -> None:
        """Use the JVM of `session`. `read_commit` gives a table's commit by its version, if that is still there."""
        self._read_commit = read_commit
        self._numbers: dict[str, _Known] = {}
        self._session = session
        self._owner = owner
        jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no other way to a library's classes
        self._jvm = jvm
        self._delta = self._jvm.org.apache.spark.sql.delta

    def exists(self, path: str) -> bool:
        """Whether there is a table with at least one commit."""
        log = self._jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log")
        if not self._file_system(log).exists(log):
            self.forget(path)
            return False
        return bool(self._snapshot(path).version() >= 0)

    def number(self, path: str) -> int | None:
        """The owner's highest number in the table; None if there is none.

        It is mostly in one of the newest commits, each a small file. To have Spark
        put the log together for it costs two CPU seconds.
        """
        with self._active():
            return self._number_in(path, self._snapshot(path))

    def _number_in(self, path: str, snapshot: Any) -> int | None:  # noqa: ANN401 - a Java object
        version = int(snapshot.version())
        known = self._numbers.get(path, _Known(-1, None))
        if known.version > version:
            known = _Known(-1, None)
        found = self._newest_number(path, range(version, max(known.version, version - _COMMITS_READ), -1))
        if found is None and known.version >= version - _COMMITS_READ:
            found = known.number
        if found is None:
            noted = snapshot.transactions().get(self._owner)
            found = int(noted.get()) if noted.isDefined() else None
        self._numbers[path] = _Known(version, found)
        return found

    def _newest_number(self, path: str, versions: range) -> int | None:
        for version in versions:
            commit = self._read_commit(path, version)
            for line in commit.splitlines() if commit is not None else ():
                noted = json.loads(line).get("txn", {})
                if noted.get("appId") == self._owner:
                    return int(noted["version"])
            if commit is None:
                return None
        return None

    def version(self, path: str) -> int:
        """The newest version."""
        return int(self._snapshot(path).version())

    def commit(
        self, path: str, number: int, change: Callable[[str], str] | None = None, behind: int | None = None
    ) -> None:
        """Commit `number`, and what `change` makes of the action `metaData`, JSON; no files. See `Lake.note`."""
        with self._active():
            transaction = self._log(path).startTransaction(self._nothing(), self._nothing())
            # What has been read makes this commit fail if another one of the owner's comes first. The library's
            # own way to ask, txnVersion, has Spark put the log together: a CPU second of the small machine.
            transaction.readTxn().addOne(self._owner)
            reached = self._number_in(path, transaction.snapshot()) or -1
            if reached >= number or behind not in {None, reached}:
                return
            # Behind a "manual update" the library has Spark sum the whole table up anew; behind these, it adds to the
            # sum that it has.
            operation = getattr(getattr(self._delta, "DeltaOperations$EmptyCommit$"), "MODULE$")
            if change is not None:
                before = transaction.metadata()
                changed = self._delta.actions.Action.fromJson(change(before.json()))
                transaction.updateMetadata(changed, False)  # noqa: FBT003 - Java
                operation = getattr(self._delta, "DeltaOperations$UpdateSchema")(before.schema(), changed.schema())
            actions = self._jvm.java.util.ArrayList()
            actions.add(self._delta.actions.SetTransaction(self._owner, number, self._nothing()))
            listed = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
            transaction.commit(listed, operation)

    def allow_local_times(self, path: str) -> None:
        """Let the table have columns of TIMESTAMP_NTZ. Delta does so by itself in new tables alone."""
        feature = getattr(getattr(self._delta, "TimestampNTZTableFeature$"), "MODULE$")
        if not self._snapshot(path).protocol().isFeatureSupported(feature):
            table = quote_name(DELTA, "delta", path)
            with self._active():
                self._session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")

    def remove(self, path: str) -> None:
        """Delete the table's folder."""
        folder = self._jvm.org.apache.hadoop.fs.Path(path)
        self._file_system(folder).delete(folder, True)  # noqa: FBT003 - Java
        self.forget(path)

    def forget(self, path: str) -> None:
        """Drop what the library remembers of the table."""
        folder = self._jvm.org.apache.hadoop.fs.Path(path)
        self._numbers.pop(path, None)
        self._delta.DeltaLog.invalidateCache(self._session._jsparkSession, folder)  # noqa: SLF001 - as above

    def _log(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._delta.DeltaLog.forTable(self._session._jsparkSession, path)  # noqa: SLF001 - as above

    def _snapshot(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        with self._active():
            return self._log(path).update(False, self._nothing(), self._nothing())  # noqa: FBT003 - Java

    def _nothing(self) -> Any:  # noqa: ANN401 - a Java object
        return self._jvm.scala.Option.empty()

    def _file_system(self, path: Any) -> Any:  # noqa: ANN401 - a Java object
        return path.getFileSystem(self._session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - as above

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Let the library find our session, and its settings, as the one of this thread."""
        sessions = self._jvm.SparkSession
        before = sessions.getActiveSession()
        sessions.setActiveSession(self._session._jsparkSession)  # noqa: SLF001 - as above
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()
