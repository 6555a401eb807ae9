"""From a statement to its plan: which of Redshift's statements it is, and what Redshift refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dev.redshift.alter_table import plan_alter_table
from penstock.dev.redshift.control import SetFault
from penstock.dev.redshift.create_table import plan_create_table
from penstock.dev.redshift.databases import plan_alter_database, plan_create_database
from penstock.dev.redshift.errors import refuse, unknown
from penstock.dev.redshift.expressions import rewrite_tokens
from penstock.dev.redshift.late_views import BINDING, plan_late_view
from penstock.dev.redshift.load import plan_copy
from penstock.dev.redshift.plan import Nothing, Plan
from penstock.dev.redshift.reading import Reading
from penstock.dev.redshift.tokens import SqlTokenKind, Statement, render
from penstock.dev.redshift.unload import plan_unload

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_SUCH_THING = frozenset(
    """
    INDEX SEQUENCE TRIGGER EXTENSION TYPE DOMAIN RULE AGGREGATE OPERATOR TABLESPACE EVENT POLICY PUBLICATION
    SUBSCRIPTION STATISTICS UNLOGGED SERVER FOREIGN
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
_NO_SUCH_STATEMENT = frozenset({"SAVEPOINT", "RELEASE", "LISTEN", "NOTIFY", "UNLISTEN", "DO", "REINDEX", "CLUSTER"})
_OWN_SETTINGS = frozenset(
    """
    QUERY_GROUP WLM_QUERY_SLOT_COUNT ANALYZE_THRESHOLD_PERCENT ENABLE_CASE_SENSITIVE_IDENTIFIER
    ENABLE_RESULT_CACHE_FOR_SESSION DESCRIBE_FIELD_NAME_IN_UPPERCASE JSON_SERIALIZATION_ENABLE
    MV_ENABLE_AQMV_FOR_SESSION NAVIGATE_SUPER_NULL_ON_ERROR CAST_SUPER_NULL_ON_ERROR
    """.split()  # noqa: SIM905 - a list of words reads better as one
)


def plan_statement(statement: Statement) -> Plan:
    """The plan for one statement; RedshiftError for what Redshift refuses or the stand-in does not know."""
    first, second, *_ = (*statement.words(2), "", "")
    if first in _NO_SUCH_STATEMENT:
        message = f'SQL command "{statement.text.strip()[:60]}" not supported'
        raise refuse(message, sqlstate="0A000")
    planner = _PLANNERS.get(first)
    if planner is not None:
        return planner(statement)
    if first in {"CREATE", "ALTER", "DROP"}:
        return _definition(statement, second)
    return Plan(statement.text, _rewritten(statement))


def _definition(statement: Statement, second: str) -> Plan:
    first = statement.words(1)[0]
    if second in _NO_SUCH_THING:
        message = f'SQL command "{statement.text.strip()[:60]}" not supported on Redshift tables'
        raise refuse(message)
    if second == "EXTERNAL":
        message = f"{first} EXTERNAL"
        raise unknown(message)
    planner = _DEFINITIONS.get((first, second))
    if planner is not None:
        return planner(statement)
    if _ends_with(statement, *BINDING):
        return plan_late_view(statement)
    never = "DROP DATABASE" if (first, second) == ("DROP", "DATABASE") else ""
    return Plan(statement.text, _rewritten(statement), never_in_block=never)


def _write(statement: Statement) -> Plan:
    """INSERT, UPDATE and DELETE, which lock their table."""
    reading = Reading(statement)
    reading.next()
    reading.take("INTO")
    reading.take("FROM")
    table = reading.qualified_name()
    if reading.peek() == "AS" and statement.words(1) == ("DELETE",):
        message = "AS"
        raise reading.error(message)
    return Plan(statement.text, _rewritten(statement), locks=(table,))


def _merge(statement: Statement) -> Plan:
    """MERGE with the limits of the page "MERGE"."""
    reading = Reading(statement)
    reading.expect("MERGE")
    reading.expect("INTO")
    target = reading.qualified_name()
    reading.expect("USING")
    if reading.peek() == "(":
        message = "MERGE source must be a table, not a subquery"
        raise refuse(message, sqlstate="42601")
    reading.qualified_name()
    words = [token.word for token in statement.tokens]
    if words[-2:] == ["REMOVE", "DUPLICATES"]:
        message = "MERGE ... REMOVE DUPLICATES"
        raise unknown(message)
    whens = [" ".join(words[at : at + 4]) for at, word in enumerate(words) if word == "WHEN" and "CASE" not in words]
    matched = [when for when in whens if when.startswith("WHEN MATCHED THEN")]
    missing = [when for when in whens if when == "WHEN NOT MATCHED THEN"]
    if whens and (len(matched) != 1 or len(missing) != 1 or len(whens) > len(matched) + len(missing)):
        message = "MERGE must have one WHEN MATCHED THEN and one WHEN NOT MATCHED THEN clause, without conditions"
        raise refuse(message, sqlstate="42601")
    return Plan(statement.text, _rewritten(statement), locks=(target,))


def _truncate(statement: Statement) -> Plan:
    """TRUNCATE, which commits: the page "TRUNCATE"."""
    reading = Reading(statement)
    reading.expect("TRUNCATE")
    reading.take("TABLE")
    table = reading.qualified_name()
    if not reading.at_end():
        raise reading.error()
    return Plan(statement.text, f"TRUNCATE TABLE {table}", commits=True)


def _begin(statement: Statement) -> Plan:
    """BEGIN, whose isolation level has no effect: the page "BEGIN"."""
    words = [token.word for token in statement.tokens]
    read_only = "READ" in words and "ONLY" in words[words.index("READ") :]
    return Plan(statement.text, "BEGIN READ ONLY" if read_only else "BEGIN")


def _rollback(statement: Statement) -> Plan:
    if "TO" in statement.words(4):
        message = 'SQL command "ROLLBACK TO SAVEPOINT" not supported'
        raise refuse(message)
    return Plan(statement.text, statement.text)


def _vacuum(statement: Statement) -> Plan:
    """VACUUM has nothing to do here, but not inside a transaction: the page "VACUUM"."""
    reading = Reading(statement)
    reading.expect("VACUUM")
    for option in (["FULL"], ["SORT", "ONLY"], ["DELETE", "ONLY"], ["REINDEX"], ["RECLUSTER"]):
        if reading.take_all(*option):
            break
    table = "" if reading.at_end() else reading.qualified_name()
    action = None if table else Nothing("VACUUM")
    return Plan(statement.text, f"VACUUM {table}", action=action, never_in_block="VACUUM")


def _analyze(statement: Statement) -> Plan:
    """ANALYZE: the page "ANALYZE"."""
    reading = Reading(statement)
    reading.next()
    if reading.peek() == "COMPRESSION":
        message = "ANALYZE COMPRESSION"
        raise unknown(message)
    reading.take("VERBOSE")
    if reading.at_end():
        return Plan(statement.text, "ANALYZE")
    table = reading.qualified_name()
    columns = f" ({', '.join(reading.column_list())})" if reading.peek() == "(" else ""
    if not (reading.at_end() or reading.take_all("PREDICATE", "COLUMNS") or reading.take_all("ALL", "COLUMNS")):
        raise reading.error()
    return Plan(statement.text, f"ANALYZE {table}{columns}")


def _lock(statement: Statement) -> Plan:
    """LOCK, which has no modes: the page "LOCK"."""
    reading = Reading(statement)
    reading.expect("LOCK")
    reading.take("TABLE")
    tables = [reading.qualified_name()]
    while reading.take(","):
        tables.append(reading.qualified_name())
    if not reading.at_end():
        raise reading.error()
    return Plan(statement.text, f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")


def _set(statement: Statement) -> Plan:
    """SET, of Redshift's own settings without effect; and standin.fault, which is the stand-in's."""
    words = statement.words(8)
    if words[1:4] == ("STANDIN", ".", "FAULT"):
        value = statement.tokens[-1]
        return Plan(statement.text, action=SetFault(value.value if value.kind is SqlTokenKind.STRING else ""))
    if any(word in _OWN_SETTINGS for word in words[1:3]):
        return Plan(statement.text, action=Nothing("SET"))
    return Plan(statement.text, _rewritten(statement))


def _rewritten(statement: Statement) -> str:
    return render(statement.text, rewrite_tokens(statement.tokens))


def _ends_with(statement: Statement, *words: str) -> bool:
    return tuple(token.word for token in statement.tokens[-len(words) :]) == words


_DEFINITIONS: dict[tuple[str, str], Callable[[Statement], Plan]] = {
    **{("CREATE", kind): plan_create_table for kind in ("TABLE", "TEMP", "TEMPORARY", "LOCAL")},
    ("ALTER", "TABLE"): plan_alter_table,
    ("CREATE", "DATABASE"): plan_create_database,
    ("ALTER", "DATABASE"): plan_alter_database,
}
_PLANNERS: dict[str, Callable[[Statement], Plan]] = {
    "INSERT": _write,
    "UPDATE": _write,
    "DELETE": _write,
    "MERGE": _merge,
    "COPY": plan_copy,
    "UNLOAD": plan_unload,
    "TRUNCATE": _truncate,
    "BEGIN": _begin,
    "START": _begin,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "VACUUM": _vacuum,
    "ANALYZE": _analyze,
    "ANALYSE": _analyze,
    "LOCK": _lock,
    "SET": _set,
}
