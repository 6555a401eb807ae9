"""What a source and its replicas say of their lag, and whom snapshots wait for by that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

import pymysql
import pytest
from pymysql.constants import CR, ER

from penstock.adapters.mysql import replica_lag
from penstock.adapters.mysql.connection import MysqlServer, _Connection
from penstock.adapters.mysql.replica_lag import LagLimit, ReplicaWatch
from penstock.core.errors import UnavailableError, UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.errors import PenstockError

SOURCE = MysqlServer("db", 3306, "cdc", "")
_UNKNOWN = pymysql.err.ProgrammingError(ER.PARSE_ERROR, "You have an error in your SQL syntax")

Answers = dict[str, "list[dict[str, object]] | pymysql.err.MySQLError"]


class Connection(_Connection):
    """A driver's connection to a MySQL server that answers as it is told to."""

    def __init__(self, server: MysqlServer, answers: Answers) -> None:
        self.server, self.server_version = server, "8.0.36"
        self._answers = answers
        self._answer: list[dict[str, object]] = []

    def cursor(self, _: object = None) -> Self:  # type: ignore[override]
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""

    def execute(self, statement: str) -> None:
        answer = self._answers.get(statement, [])
        if isinstance(answer, pymysql.err.MySQLError):
            raise answer
        self._answer = answer

    def fetchall(self) -> list[dict[str, object]]:
        return self._answer


class Servers:
    """The servers that can be reached, by their names, and which of them were asked, in order."""

    def __init__(self, servers: Mapping[str, Answers]) -> None:
        self.servers = dict(servers)
        self.asked: list[str] = []

    def connect(self, server: MysqlServer, *_: float) -> Connection:
        self.asked.append(server.host)
        if server.host not in self.servers:
            message = f"{server} does not answer"
            raise UnavailableError(message, "start it")
        return Connection(server, self.servers[server.host])


def watch(monkeypatch: pytest.MonkeyPatch, servers: Servers, limit: LagLimit) -> ReplicaWatch:
    monkeypatch.setattr(replica_lag, "connect", servers.connect)
    return ReplicaWatch(SOURCE, limit)


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (
            pymysql.err.OperationalError(ER.SPECIFIC_ACCESS_DENIED_ERROR, "you need REPLICATION CLIENT"),
            UnfitServerError,
        ),
        (pymysql.err.OperationalError(ER.LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded"), UnavailableError),
        (pymysql.err.OperationalError(3024, "maximum statement execution time exceeded"), UnfitServerError),
        (pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection"), UnavailableError),
        (pymysql.err.ProgrammingError(ER.CANT_AGGREGATE_2COLLATIONS, "no"), UnfitServerError),
    ],
)
def test_whatever_mysql_answers_a_question_with_is_one_of_our_errors(
    refusal: pymysql.err.MySQLError, kind: type[PenstockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers({"db": {"SHOW REPLICA STATUS": refusal}})

    with pytest.raises(kind) as raised:
        watch(monkeypatch, servers, LagLimit(0)).look()

    assert raised.value.__cause__ is refusal
    is_denied = refusal.args[0] == ER.SPECIFIC_ACCESS_DENIED_ERROR
    assert ("GRANT REPLICATION CLIENT" in raised.value.hint) is is_denied


def test_a_mysql_that_does_not_know_the_new_words_is_asked_with_the_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    old: Answers = {
        "SHOW REPLICA STATUS": _UNKNOWN,
        "SHOW SLAVE STATUS": [{"Seconds_Behind_Master": 9}],
        "SHOW REPLICAS": _UNKNOWN,
    }
    watched = watch(monkeypatch, Servers({"db": old}), LagLimit(5))

    late = watched.look()
    old["SHOW SLAVE STATUS"] = _UNKNOWN
    with pytest.raises(UnfitServerError):
        watched.look()

    assert late is not None
    assert "is 9 seconds behind its master" in late.message


def test_a_promoted_source_is_not_told_to_follow_its_old_master_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: Answers = {"SHOW REPLICA STATUS": [{"Seconds_Behind_Source": None}]}
    servers = Servers({"db": dict(stopped), "db2": stopped})
    watched = watch(monkeypatch, servers, LagLimit(5, [("db2", 3306)]))

    of_source = watched.look()
    servers.servers["db"].clear()
    of_replica = watched.look()

    assert of_source is not None
    assert of_source.hint.startswith("if db is a replica no more, type on it: RESET REPLICA ALL; if it is one, ")
    assert of_replica is not None
    assert of_replica.hint == "type on it: SHOW REPLICA STATUS, then START REPLICA"


def test_a_known_replica_out_of_reach_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: Answers = {"SHOW REPLICAS": [{"Host": "far", "Port": 3306}]}
    servers = Servers({"db": registered})
    watched = watch(monkeypatch, servers, LagLimit(5))

    def look_at(now: float) -> UnavailableError | None:
        monkeypatch.setattr(time, "monotonic", lambda: now)
        return watched.look()

    away = [look_at(now) for now in (1000.0, 1002.0, 1059.0, 1061.0, 1063.0)]
    servers.servers["far"] = {"SHOW REPLICA STATUS": [{"Seconds_Behind_Source": 9}]}
    near = look_at(1122.0)

    assert away == [None] * 5
    assert servers.asked == ["db", "far", "db", "db", "db", "far", "db", "db", "far"]
    assert near is not None
    assert "is 9 seconds behind" in near.message


def test_a_replica_that_is_behind_on_purpose_is_waited_for_only_if_the_file_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers({
        "db": {"SHOW REPLICAS": [{"Host": "late", "Port": 3306}]},
        "late": {"SHOW REPLICA STATUS": [{"Seconds_Behind_Source": 3600, "SQL_Delay": 3600}]},
    })  # fmt: skip

    known = watch(monkeypatch, servers, LagLimit(5)).look()
    named = watch(monkeypatch, servers, LagLimit(5, [("late", 3306)])).look()

    assert known is None
    assert named is not None
    assert "is 3600 seconds behind" in named.message
