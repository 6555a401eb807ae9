"""What an audit cannot compare, or not to its end, is said of its table, which never scores better than was checked."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.source_log import address
from tests.servers.test_audit import audit, corrupt

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.config.audits import AuditSpec
from penstock.core.audit.report import describe
from penstock.core.audit.scores import Score
from penstock.core.errors import UnavailableError
from penstock.wiring.audit import run_audit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

NOTHING = Score(0.0, 0.0, 0.0)


@pytest.fixture
def chain(
    tmp_path: Path, mariadb: MariadbServer, fresh_database: str, chain_parts: tuple[KafkaBroker, str, int]
) -> Chain:
    """A pipeline whose target has all of its tables."""
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    for table in ("right", "gone_here", "gone_there", "unreadable_there", "wider", "retyped", "excluded"):
        made.write(
            f"CREATE TABLE `{table}` (id INT PRIMARY KEY, n INT, t VARCHAR(20))",
            f"INSERT INTO `{table}` SELECT seq, seq, CONCAT('t', seq) FROM seq_1_to_50",
        )
    made.write("CREATE TABLE keyless (n INT)", "INSERT INTO keyless VALUES (1)")
    made.write("CREATE TABLE by_float (f DOUBLE PRIMARY KEY)", "INSERT INTO by_float VALUES (0.5), (-1e300)")
    made.start()
    made.carry()
    return made


def test_each_table_that_cannot_be_compared_says_why_and_the_others_are_audited(chain: Chain) -> None:
    chain.write(
        "SET SESSION sql_log_bin = 0",
        "DROP TABLE gone_here",
        "ALTER TABLE wider ADD COLUMN more INT",
        "ALTER TABLE retyped MODIFY n VARCHAR(20)",
    )
    corrupt(
        chain,
        "DROP TABLE {s}.gone_there",
        "ALTER TABLE {s}.unreadable_there DROP COLUMN t",
        "UPDATE {s}.wider SET t = 'other' WHERE id = 7",
        "UPDATE {s}.retyped SET t = 'other' WHERE id = 7",
        "DELETE FROM {s}.by_float WHERE f = 0.5",
    )

    named = {"tables": ["*.*", f"{chain.source}.mistyped"], "exclude_columns": ["*.excluded.id"]}
    spec = AuditSpec.model_validate({"source": chain.source, "sink": "wh", **named})
    report = run_audit(chain.spec, spec, lambda _: None)
    found = {table.table.partition(".")[2]: table for table in report.tables}

    assert {name: (table.state, table.score and table.score.score) for name, table in found.items()} == {
        "right": ("equal", 1.0),
        "gone_here": ("different", 0.0),
        "gone_there": ("failed", None),
        "unreadable_there": ("failed", None),
        "wider": ("different", 0.0),
        "retyped": ("different", 0.0),
        "excluded": ("not compared", None),
        "keyless": ("not compared", None),
        "by_float": ("different", 0.5),
        "mistyped": ("failed", None),
    }
    assert found["gone_here"].why == f"{chain.source} has no such table, or does not show it to our user"
    assert "gone_there" in found["gone_there"].why
    assert '"t"' in found["unreadable_there"].why
    assert [(each.column, each.why) for each in found["wider"].not_compared] == [
        ("more", "the target's table has no such column")
    ]
    assert [(each.column, each.why) for each in found["retyped"].not_compared] == [
        ("n", "it is varchar(20) in the source, and int(11) there")
    ]
    for name in ("wider", "retyped"):
        assert [(row.key, dict(row.columns)) for row in found[name].rows] == [(("7",), {"t": ("t7", "other")})]
    assert found["excluded"].why.startswith("its key has the column id, which is not compared: the audit's")
    assert "no primary key" in found["keyless"].why
    assert [(row.key, row.state) for row in found["by_float"].rows] == [(("5e0",), "missing")]
    assert describe([report])["passed"] is False


@pytest.mark.nightly
def test_what_the_user_may_not_read_is_not_called_equal(chain: Chain) -> None:
    chain.write(
        "CREATE USER IF NOT EXISTS few@'%' IDENTIFIED BY 'penstock'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO few@'%'",
        f"GRANT SELECT ON {chain.name}.`right` TO few@'%'",
        f"GRANT SELECT (id) ON {chain.name}.wider TO few@'%'",
    )
    chain.carry()
    text = chain.file.read_text()
    head, _, tail = text.partition("sources:")
    chain.file.write_text(f"{head}sources:{tail.replace('user: penstock', 'user: few')}")
    try:
        found = audit(chain)
    finally:
        chain.write("DROP USER few@'%'")

    assert (found["right"].state, found["right"].score) == ("equal", Score(1, 1, 1))
    unseen = [table for name, table in found.items() if name not in {"right", "wider"}]
    assert {(table.state, table.score) for table in unseen} == {("different", NOTHING)}
    assert {table.why for table in unseen} == {f"{chain.source} has no such table, or does not show it to our user"}
    assert (found["wider"].state, found["wider"].score) == ("different", Score(0, 0, 1))
    hidden = "the source has no such column, or does not show it to our user"
    assert [(each.column, each.why) for each in found["wider"].not_compared] == [("n", hidden), ("t", hidden)]


@pytest.fixture
def audited(mariadb: MariadbServer) -> Iterator[AuditedMysql]:
    """The source, as an audit reads it."""
    with closing(AuditedMysql(address(mariadb))) as opened:
        yield opened


def test_a_query_that_takes_too_long_or_is_killed_fails_with_what_to_do(
    audited: AuditedMysql, mariadb: MariadbServer
) -> None:
    audited.limit(1)
    audited.renew()
    with pytest.raises(UnavailableError, match="ended an audit's query") as late:
        audited.fetch("SELECT SLEEP(30)")
    audited.limit(60)
    audited.renew()
    ((id_,),) = audited.fetch("SELECT CONNECTION_ID()")

    def kill(what: str) -> threading.Timer:
        timer = threading.Timer(1.0, lambda: AuditedMysql(address(mariadb)).fetch(f"KILL {what} {id_}"))
        timer.start()
        return timer

    timer = kill("QUERY")
    with pytest.raises(UnavailableError, match="ended an audit's query"):
        audited.fetch(f"SELECT COUNT(*) FROM {', '.join(f'information_schema.COLLATIONS c{n}' for n in range(5))}")
    timer.join()
    timer = kill("CONNECTION")
    with pytest.raises(UnavailableError):
        audited.fetch("SELECT SLEEP(30)")
    timer.join()

    assert "query_seconds" in late.value.hint


@pytest.mark.nightly
def test_a_table_that_is_altered_behind_the_snapshot_is_not_read_in_it(chain: Chain, audited: AuditedMysql) -> None:
    audited.renew()
    chain.write("ALTER TABLE `right` ADD COLUMN x INT, ALGORITHM=COPY")

    with pytest.raises(UnavailableError, match="Table definition has changed"):
        audited.fetch(f"SELECT COUNT(*) FROM {chain.name}.`right`")
