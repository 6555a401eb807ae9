"""The stand-in has Snowflake's streams and tasks. Each rule names its page of Snowflake's documentation."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
import snowflake.connector
from snowflake.connector.errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.snowflake import SnowflakeServer

_TABLES = ("CREATE TABLE base (id NUMBER(38, 0))", "CREATE TABLE copied (id NUMBER(38, 0))")
_STREAM = "CREATE STREAM news ON TABLE base APPEND_ONLY = TRUE"
_COPY = "INSERT INTO copied SELECT id FROM news"
_HAS_DATA = "SELECT SYSTEM$STREAM_HAS_DATA('news')"
_TASK = f"CREATE TASK work SCHEDULE = '10 SECONDS' WHEN SYSTEM$STREAM_HAS_DATA('news') AS {_COPY}"


class Client:
    """A session of the connector, in a schema of its own."""

    def __init__(self, server: SnowflakeServer, schema: str) -> None:
        self.schema = schema.upper()
        self.connection = snowflake.connector.connect(
            account=server.account,
            user=server.user,
            password=server.password,
            host=server.host,
            port=server.port,
            protocol="http",
            database=server.database,
            schema=schema,
            paramstyle="qmark",
            login_timeout=30,
            network_timeout=30,
        )

    def __call__(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        rows: list[Any] = []
        with self.connection.cursor() as cursor:
            for statement in statements:
                rows = list(cursor.execute(statement).fetchall())  # type: ignore[union-attr]
        return rows

    def states(self) -> list[str]:
        """How the runs of the task ended, the newest first."""
        history = "SELECT state FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY(TASK_NAME => 'WORK'))"
        return [state for (state,) in self(f"{history} WHERE schema_name = '{self.schema}'")]

    def run_task(self) -> str:
        """Let the task run once, and return how that ended."""
        before = len(self.states())
        self("EXECUTE TASK work")
        deadline = time.monotonic() + 20
        while len(states := self.states()) == before:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return states[0]


@pytest.fixture
def client(snowflake: SnowflakeServer, fresh_name: str) -> Iterator[Client]:
    """In a schema with the tables `base` and `copied` and the stream `news` of the first."""
    session = Client(snowflake, fresh_name)
    session(*_TABLES, _STREAM)
    yield session
    session("DROP TASK IF EXISTS work")
    session.connection.close()


def test_a_stream_begins_where_it_was_made_unless_it_shows_initial_rows(client: Client) -> None:
    """SQL reference, "CREATE STREAM"."""
    client("INSERT INTO base VALUES (1)", "CREATE OR REPLACE STREAM news ON TABLE base APPEND_ONLY = TRUE")
    assert client("SELECT id FROM news") == []
    client("CREATE OR REPLACE STREAM news ON TABLE base APPEND_ONLY = TRUE SHOW_INITIAL_ROWS = TRUE")
    assert client("SELECT id FROM news") == [(1,)]


def test_reading_a_stream_moves_nothing_and_a_dml_statement_that_reads_it_moves_it(client: Client) -> None:
    """User guide, "Introduction to streams"."""
    client("INSERT INTO base VALUES (1), (2)")
    assert client("SELECT id FROM news ORDER BY id") == client("SELECT id FROM news ORDER BY id") == [(1,), (2,)]
    assert client("SELECT METADATA$ACTION, METADATA$ISUPDATE FROM news LIMIT 1") == [("INSERT", False)]
    assert client(_HAS_DATA) == [(True,)]
    client(_COPY)
    assert client(_HAS_DATA) == [(False,)]
    assert client("SELECT id FROM copied ORDER BY id") == [(1,), (2,)]


def test_a_stale_stream_is_shown_and_cannot_be_read_until_it_is_made_anew(client: Client) -> None:
    """User guide, "Introduction to streams"; SQL reference, "SHOW STREAMS"."""
    end = "ALTER TABLE base SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 0"
    client(end, _COPY, "INSERT INTO base VALUES (1)", end)
    with pytest.raises(ProgrammingError, match="has become stale"):
        client(_COPY)
    assert "true" in client("SHOW STREAMS")[0]
    client("CREATE OR REPLACE STREAM news ON TABLE base APPEND_ONLY = TRUE SHOW_INITIAL_ROWS = TRUE", _COPY)
    assert client("SELECT id FROM copied") == [(1,)]
    assert "true" not in client("SHOW STREAMS")[0]


def test_a_transaction_is_shown_to_other_sessions_and_can_be_aborted_by_them(
    client: Client, snowflake: SnowflakeServer
) -> None:
    """SQL reference, "SHOW TRANSACTIONS" and "SYSTEM$ABORT_TRANSACTION"."""
    other = Client(snowflake, client.schema)
    with contextlib.closing(other.connection):
        client("INSERT INTO copied VALUES (1)", "BEGIN NAME mine", "UPDATE copied SET id = 2")
        ((number, *_),) = [row for row in other("SHOW TRANSACTIONS") if "MINE" in row]
        other(f"SELECT SYSTEM$ABORT_TRANSACTION({number})")

        assert [row for row in other("SHOW TRANSACTIONS") if "MINE" in row] == []
        other("UPDATE copied SET id = 3")
        assert client("SELECT id FROM copied") == [(3,)]


def test_a_stream_stays_where_it_is_when_the_transaction_that_read_it_is_rolled_back(client: Client) -> None:
    """User guide, "Introduction to streams"."""
    client("INSERT INTO base VALUES (1)", "BEGIN", _COPY, "ROLLBACK")
    assert (client(_HAS_DATA), client("SELECT * FROM copied")) == ([(True,)], [])


def test_a_stream_stays_where_it_is_when_the_statement_that_reads_it_fails(client: Client) -> None:
    """User guide, "Introduction to streams"."""
    client("INSERT INTO base VALUES (1)")
    with pytest.raises(ProgrammingError):
        client("INSERT INTO copied SELECT CAST(METADATA$ACTION AS NUMBER) FROM news")
    assert client(_HAS_DATA) == [(True,)]


def test_all_statements_of_a_transaction_see_the_same_rows_of_a_stream(client: Client) -> None:
    """User guide, "Introduction to streams", repeatable read."""
    client("INSERT INTO base VALUES (1)", "BEGIN", _COPY, _COPY, "COMMIT")
    assert (client(_HAS_DATA), client("SELECT id FROM copied")) == ([(False,)], [(1,), (1,)])


def test_a_transaction_does_not_see_in_a_stream_what_it_adds_itself(client: Client) -> None:
    """User guide, "Introduction to streams", repeatable read."""
    client("INSERT INTO base VALUES (1)", "BEGIN", "INSERT INTO base VALUES (2)", _COPY, "COMMIT")
    assert client("SELECT id FROM copied") == [(1,)]
    assert client("SELECT id FROM news") == [(2,)]
    client("INSERT INTO base VALUES (3)")
    assert client("SELECT id FROM news ORDER BY id") == [(2,), (3,)]


def test_what_is_committed_while_a_transaction_reads_a_stream_is_still_news_behind_it(
    client: Client, snowflake: SnowflakeServer
) -> None:
    """User guide, "Introduction to streams"."""
    with contextlib.closing(Client(snowflake, client.schema).connection) as other:
        client("INSERT INTO base VALUES (1)", "BEGIN", _COPY)
        other.cursor().execute("INSERT INTO base VALUES (2)")
        client("COMMIT")
    assert client("SELECT id FROM news") == [(2,)]


def test_a_query_is_inserted_into_several_tables_by_conditions_and_in_one_transaction(client: Client) -> None:
    """SQL reference, "INSERT (multi-table)"."""
    every = (
        'INSERT ALL WHEN "n" < 3 THEN INTO base (id) VALUES ("n") WHEN "n" > 1 THEN INTO copied (id) VALUES ("m") '
        'SELECT f.value:n::NUMBER AS "n", f.value:m::NUMBER AS "m" FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) AS f'
    )
    rows = '[{"n": 1, "m": 10}, {"n": 2, "m": 20}, {"n": 3, "m": 30}]'
    for end in ("ROLLBACK", "COMMIT"):
        client("BEGIN")
        client.connection.cursor().execute(every, [rows])
        client(end)

    assert client("SELECT id FROM base ORDER BY 1") == client("SELECT id FROM news ORDER BY 1") == [(1,), (2,)]
    assert client("SELECT id FROM copied ORDER BY 1") == [(20,), (30,)]


def test_a_statement_that_is_repeated_sees_what_became_of_its_tables(client: Client) -> None:
    """The stand-in translates a text once."""
    client("INSERT INTO base VALUES (1)")
    assert client("SELECT * FROM base") == [(1,)]
    client("ALTER TABLE base ADD COLUMN more VARCHAR DEFAULT 'x'")
    assert client("SELECT * FROM base") == [(1, "x")]
    client("DROP TABLE base", "CREATE TABLE base (id VARIANT)", "INSERT INTO base SELECT PARSE_JSON('{\"a\": 1}')")
    assert client("SELECT * FROM base") == [('{"a":1}',)]


def test_ddl_commits_the_transaction_that_is_open(client: Client) -> None:
    """SQL reference, "Transactions"."""
    client("INSERT INTO base VALUES (1)", "BEGIN", _COPY, "CREATE TABLE other (id NUMBER(38, 0))", "ROLLBACK")
    assert (client(_HAS_DATA), client("SELECT id FROM copied")) == ([(False,)], [(1,)])


def test_a_new_task_is_suspended_and_may_be_executed_all_the_same(client: Client) -> None:
    """SQL reference, "CREATE TASK" and "EXECUTE TASK"."""
    client("INSERT INTO base VALUES (1)", _TASK)
    assert client.run_task() == "SUCCEEDED"
    assert client("SELECT id FROM copied") == [(1,)]
    with client.connection.cursor(snowflake.connector.DictCursor) as cursor:
        ((task),) = cursor.execute("SHOW TASKS LIKE 'work'").fetchall()  # type: ignore[union-attr]
    assert (task["state"], task["schedule"], task["definition"]) == ("suspended", "10 SECONDS", _COPY)


def test_a_task_whose_stream_has_no_data_is_skipped(client: Client) -> None:
    """SQL reference, "TASK_HISTORY"."""
    client(_TASK)
    assert client.run_task() == "SKIPPED"


@pytest.mark.nightly
def test_a_task_that_is_resumed_runs_by_its_schedule(client: Client) -> None:
    """SQL reference, "CREATE TASK"."""
    client("INSERT INTO base VALUES (1)", _TASK, "ALTER TASK work RESUME")
    deadline = time.monotonic() + 60
    while not client.states():
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert client("SELECT id FROM copied") == [(1,)]


def test_a_task_that_fails_too_often_in_a_row_is_suspended_and_its_stream_stays(client: Client) -> None:
    """SQL reference, "CREATE TASK", SUSPEND_TASK_AFTER_NUM_FAILURES."""
    wrong = _TASK.replace("WHEN", "SUSPEND_TASK_AFTER_NUM_FAILURES = 2 WHEN").replace("SELECT id", "SELECT nothing")
    client("INSERT INTO base VALUES (1)", wrong, "ALTER TASK work RESUME")
    assert [client.run_task(), client.run_task()] == ["FAILED", "FAILED"]
    with client.connection.cursor(snowflake.connector.DictCursor) as cursor:
        ((task),) = cursor.execute("SHOW TASKS").fetchall()  # type: ignore[union-attr]
    assert (task["state"], client(_HAS_DATA)) == ("suspended", [(True,)])


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE STREAM s ON TABLE missing APPEND_ONLY = TRUE", "does not exist"),
        (_STREAM, "already exists"),
        ("DROP STREAM missing", "does not exist"),
        ("EXECUTE TASK missing", "does not exist"),
        ("ALTER TASK missing RESUME", "does not exist"),
        (_TASK.replace("10", "9"), "10 seconds at least"),
        (_TASK.replace("'10 SECONDS'", "'USING CRON * * * * * UTC'"), "invalid schedule"),
        ("CREATE TASK work WHEN 1 = 1 AS SELECT 1", "SYSTEM\\$STREAM_HAS_DATA alone"),
        ("CREATE TASK work AS SELECT 1", "needs a SCHEDULE"),
        ("CREATE TASK work SCHEDULE = '1 MINUTE' COLOUR = blue AS SELECT 1", "unexpected 'COLOUR'"),
        ("CREATE TASK work SCHEDULE = '1 MINUTE' AS SELECT 1; SELECT 2", "one statement, or a block"),
        ("CREATE TASK work SCHEDULE = '1 MINUTE' AS BEGIN LET x := 1; END", "blocks of plain statements alone"),
        ("CREATE TASK work AFTER missing AS SELECT 1", "Invalid predecessor"),
        ("CREATE TASK work SCHEDULE = '1 MINUTE' AFTER missing AS SELECT 1", "predecessors cannot have a SCHEDULE"),
        ("SELECT SYSTEM$TASK_DEPENDENTS_ENABLE('missing')", "does not exist"),
        ("MERGE INTO base AS t USING news AS s ON  WHEN MATCHED THEN DELETE", "SQL compilation error"),
    ],
)
def test_it_refuses_what_snowflake_refuses_and_what_it_has_not(client: Client, statement: str, error: str) -> None:
    with pytest.raises(ProgrammingError, match=error):
        client(statement)


_ROOT = "CREATE TASK work SCHEDULE = '1 HOUR' AS INSERT INTO copied VALUES (0)"
_CHILD = "CREATE OR REPLACE TASK child AFTER work AS INSERT INTO copied VALUES (1)"
_GRANDCHILD = "CREATE TASK grandchild AFTER child AS INSERT INTO copied VALUES (2)"


@pytest.fixture
def graph(client: Client) -> Iterator[Client]:
    """With the tasks `child` after `work`, and `grandchild` after that."""
    client(_ROOT, _CHILD, _GRANDCHILD)
    yield client
    client("ALTER TASK IF EXISTS work SUSPEND", "DROP TASK IF EXISTS grandchild", "DROP TASK IF EXISTS child")


def ends(client: Client) -> list[tuple[str, str]]:
    """How the runs of all tasks ended, the oldest first."""
    history = "SELECT name, state FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY())"
    return list(reversed(client(f"{history} WHERE schema_name = '{client.schema}'")))


def until(client: Client, runs: int) -> list[tuple[str, str]]:
    """Execute the root, wait for so many runs, and return how they ended."""
    before = len(ends(client))
    client("EXECUTE TASK work")
    deadline = time.monotonic() + 20
    while len(ends(client)) < before + runs:
        assert time.monotonic() < deadline, ends(client)
        time.sleep(0.1)
    time.sleep(0.2)
    return ends(client)[before:]


def test_a_graph_runs_from_its_root_on_and_no_further_than_tasks_succeed(graph: Client) -> None:
    """User guide, "Create a sequence of tasks with a task graph"; "SYSTEM$TASK_DEPENDENTS_ENABLE"."""
    assert until(graph, 1) == [("WORK", "SUCCEEDED")]
    graph("SELECT SYSTEM$TASK_DEPENDENTS_ENABLE('work')")
    assert until(graph, 3) == [("WORK", "SUCCEEDED"), ("CHILD", "SUCCEEDED"), ("GRANDCHILD", "SUCCEEDED")]

    graph("ALTER TASK work SUSPEND", _CHILD.replace("(1)", "('no number')"), "ALTER TASK child RESUME")
    assert until(graph, 2) == [("WORK", "SUCCEEDED"), ("CHILD", "FAILED")]


def test_a_child_whose_stream_has_no_data_is_skipped_and_so_is_what_comes_after_it(graph: Client) -> None:
    """SQL reference, "CREATE TASK", WHEN: tasks with this predecessor do not run either."""
    waiting = "CREATE OR REPLACE TASK child AFTER work WHEN SYSTEM$STREAM_HAS_DATA('news') AS "
    graph("DROP TASK grandchild", waiting + _COPY, _GRANDCHILD, "SELECT SYSTEM$TASK_DEPENDENTS_ENABLE('work')")
    assert until(graph, 2) == [("WORK", "SUCCEEDED"), ("CHILD", "SKIPPED")]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TASK child SUSPEND",
        "DROP TASK grandchild",
        _CHILD,
        "CREATE TASK another AFTER work AS SELECT 1",
        _ROOT.replace("CREATE", "CREATE OR REPLACE"),
    ],
)
def test_nothing_changes_in_a_graph_whose_root_is_started(graph: Client, statement: str) -> None:
    """SQL reference, "ALTER TASK"; "Create a sequence of tasks with a task graph"."""
    graph("SELECT SYSTEM$TASK_DEPENDENTS_ENABLE('work')")
    with pytest.raises(ProgrammingError, match="Unable to update graph with root task"):
        graph(statement)


def test_a_graph_has_one_root_no_circle_and_is_executed_from_its_root(graph: Client) -> None:
    """User guide, "Create a sequence of tasks with a task graph"; SQL reference, "EXECUTE TASK"."""
    graph("CREATE TASK other SCHEDULE = '1 HOUR' AS SELECT 1")
    with pytest.raises(ProgrammingError, match="more than one root task"):
        graph("CREATE TASK both AFTER child, other AS SELECT 1")
    with pytest.raises(ProgrammingError, match="would come after itself"):
        graph(_CHILD.replace("AFTER work", "AFTER grandchild"))
    with pytest.raises(ProgrammingError, match="has predecessors"):
        graph("EXECUTE TASK child")
    graph(_ROOT.replace("CREATE", "CREATE OR REPLACE"))
    with pytest.raises(ProgrammingError, match="neither a schedule nor a predecessor"):
        graph("ALTER TASK child RESUME")


def test_a_block_of_statements_is_one_transaction(client: Client) -> None:
    """Snowflake Scripting developer guide, "Understanding blocks", "Working with transactions"."""
    handler = "EXCEPTION WHEN OTHER THEN ROLLBACK; RAISE; END"
    block = f"BEGIN BEGIN TRANSACTION; DELETE FROM copied; {_COPY}; COMMIT; {handler}"
    client("INSERT INTO base VALUES (1)", "INSERT INTO copied VALUES (9)")
    client(f"CREATE TASK work SCHEDULE = '1 HOUR' AS {block.replace('id FROM', 'id / 0, nothing FROM')}")
    assert client.run_task() == "FAILED"
    assert (client("SELECT id FROM copied"), client(_HAS_DATA)) == ([(9,)], [(True,)])

    client(f"CREATE OR REPLACE TASK work SCHEDULE = '1 HOUR' AS {block}")
    assert client.run_task() == "SUCCEEDED"
    assert (client("SELECT id FROM copied"), client(_HAS_DATA)) == ([(1,)], [(False,)])


def test_a_standard_stream_shows_what_has_gone_and_come_and_follows_new_columns(client: Client) -> None:
    """User guide, "Introduction to streams"."""
    client("INSERT INTO base VALUES (1), (2)", "CREATE STREAM changes ON TABLE base", "INSERT INTO base VALUES (3)")
    client("UPDATE base SET id = 9 WHERE id = 1", "DELETE FROM base WHERE id = 2")
    news = 'SELECT "METADATA$ACTION", id FROM changes ORDER BY 1, 2'
    assert client(news) == [("DELETE", 1), ("DELETE", 2), ("INSERT", 3), ("INSERT", 9)]

    client("BEGIN", "INSERT INTO copied SELECT id FROM changes", "ROLLBACK")
    assert len(client(news)) == 4
    client("INSERT INTO copied SELECT id FROM changes", "ALTER TABLE base ADD COLUMN more NUMBER(38, 0) DEFAULT 7")
    assert client(news) == []
    client("UPDATE base SET more = 8 WHERE id = 3")
    assert client("SELECT id, more FROM changes ORDER BY more") == [(3, 7), (3, 8)]


def test_a_standard_stream_with_initial_rows_begins_with_those_and_is_stale_once_its_table_is_replaced(
    client: Client,
) -> None:
    """SQL reference, "CREATE STREAM", SHOW_INITIAL_ROWS; "CREATE TABLE", usage notes on OR REPLACE."""
    client("INSERT INTO base VALUES (1)", "CREATE STREAM changes ON TABLE base SHOW_INITIAL_ROWS = TRUE")
    assert client('SELECT "METADATA$ACTION", id FROM changes') == [("INSERT", 1)]
    client("CREATE OR REPLACE TABLE base (id NUMBER(38, 0))")
    with pytest.raises(ProgrammingError, match="has become stale"):
        client("INSERT INTO copied SELECT id FROM changes")
