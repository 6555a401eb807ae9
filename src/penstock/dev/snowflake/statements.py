"""Snowflake's statements about streams and tasks, which fakesnow has not, as data.

Sources: Snowflake SQL reference, "CREATE STREAM", "CREATE TASK", "ALTER TASK",
"EXECUTE TASK", "DROP STREAM", "DROP TASK", "SHOW STREAMS" and "SHOW TASKS".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.dev.snowflake.refusals import RefusedError
from penstock.dev.snowflake.task_bodies import parse_body


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM ... ON TABLE; one that is not append-only is a standard stream."""

    name: str
    table: str
    append_only: bool
    initial_rows: bool
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateTask:
    """CREATE TASK. `when` is "" where it runs each time; `schedule` is as it was written, "" without one.

    `after` are the names of its predecessors, as they were written.
    """

    name: str
    schedule: str
    seconds: int
    warehouse: str
    when: str
    definition: str
    failures_max: int
    replace: bool
    if_not_exists: bool
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTask:
    """ALTER TASK ... RESUME or SUSPEND."""

    name: str
    state: Literal["started", "suspended"]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class EnableDependents:
    """SELECT SYSTEM$TASK_DEPENDENTS_ENABLE."""

    name: str


@dataclass(frozen=True, slots=True)
class ExecuteTask:
    """EXECUTE TASK."""

    name: str


@dataclass(frozen=True, slots=True)
class EndRetention:
    """ALTER TABLE ... SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 0: a table keeps nothing for its streams."""

    table: str


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP STREAM or DROP TASK."""

    kind: Literal["STREAM", "TASK"]
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW STREAMS or SHOW TASKS. `like` is "" for all, `schema` "" for the session's."""

    kind: Literal["STREAM", "TASK"]
    like: str
    schema: str


@dataclass(frozen=True, slots=True)
class Grant:
    """GRANT or REVOKE of privileges on a table or a schema."""

    gives: bool
    privileges: tuple[str, ...]
    kind: Literal["TABLE", "SCHEMA"]
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """SELECT SYSTEM$ABORT_TRANSACTION."""

    number: int


Definition: TypeAlias = (
    CreateStream | CreateTask | AlterTask | EnableDependents | EndRetention | ExecuteTask | Drop | Grant
)
"""A statement that commits what is open."""
Statement: TypeAlias = Definition | Show | ShowTransactions | AbortTransaction

ANY_NAME: Final = r'(?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+)){0,2}'
_NAME: Final = rf"(?P<name>{ANY_NAME})"
_CREATE: Final = r"CREATE\s+(?P<replace>OR\s+REPLACE\s+)?%s\s+(?P<exists>IF\s+NOT\s+EXISTS\s+)?" + _NAME
_OPTION: Final = re.compile(r"\s*,?\s*(?P<key>[A-Z_]+)\s*=\s*(?P<value>'(?:[^']|'')*'|[\w.$\"]+)", re.IGNORECASE)
_AS: Final = re.compile(r"\s*AS\s+", re.IGNORECASE)
_AFTER: Final = re.compile(rf"\s*AFTER\s+(?P<after>{ANY_NAME}(?:\s*,\s*{ANY_NAME})*)\s+", re.IGNORECASE)
_WHEN: Final = re.compile(r"\s*WHEN\s+(?P<when>.*?)\s+AS\s+", re.IGNORECASE | re.DOTALL)
_HAS_DATA: Final = re.compile(r"SYSTEM\$STREAM_HAS_DATA\s*\(\s*'(?P<name>(?:[^']|'')+)'\s*\)", re.IGNORECASE)
_INTERVAL: Final = re.compile(r"(?P<number>\d+)\s+(?P<unit>SECOND|MINUTE|HOUR)S?|(?P<minutes>\d+)\s+M", re.IGNORECASE)
_SECONDS: Final = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_SCHEDULE_SECONDS: Final = range(10, 8 * 24 * 3600 + 1)
_FAILURES_MAX: Final = 10
_TASK_OPTIONS: Final = frozenset(
    {
        "WAREHOUSE",
        "SCHEDULE",
        "SUSPEND_TASK_AFTER_NUM_FAILURES",
        "USER_TASK_TIMEOUT_MS",
        "ALLOW_OVERLAPPING_EXECUTION",
        "USER_TASK_MANAGED_INITIAL_WAREHOUSE_SIZE",
        "COMMENT",
        "QUOTED_IDENTIFIERS_IGNORE_CASE",
        "DATE_INPUT_FORMAT",
        "TIMESTAMP_INPUT_FORMAT",
    }
)


def parse_statement(text: str) -> Statement | None:
    """Return the statement if it is about streams or tasks, else None. RefusedError where it is wrong."""
    text = text.strip().rstrip(";").rstrip()
    for pattern, make in _MAKERS:
        if match := re.match(pattern, text, re.IGNORECASE | re.DOTALL):
            return make(match, text[match.end() :])
    return None


def parse_schedule(text: str) -> int:
    """Return the seconds of a task's schedule; RefusedError for one that there is not."""
    match = _INTERVAL.fullmatch(text.strip())
    if not match:
        message = f"invalid schedule '{text}': this stand-in knows intervals of seconds, minutes and hours alone"
        raise RefusedError(message)
    seconds = int(match["minutes"]) * 60 if match["minutes"] else int(match["number"]) * _SECONDS[match["unit"].upper()]
    if seconds not in _SCHEDULE_SECONDS:
        message = f"invalid schedule '{text}': an interval has 10 seconds at least and 8 days at most"
        raise RefusedError(message)
    return seconds


def replace_has_data(text: str) -> str:
    """Return SQL with a query of the stream in the place of each SYSTEM$STREAM_HAS_DATA."""
    return _HAS_DATA.sub(lambda match: _count(match["name"].replace("''", "'")), text)


def only_stream(when: str) -> str:
    """Return the stream that a WHEN asks for, if it asks for nothing else; else ""."""
    match = _HAS_DATA.fullmatch(when.strip())
    return match["name"].replace("''", "'") if match else ""


def _count(name: str) -> str:
    return f"(SELECT COUNT(*) > 0 FROM {name})"  # noqa: S608 - a name of the session's own statement


def _create_stream(match: re.Match[str], rest: str) -> CreateStream:
    source = re.match(r"\s*ON\s+TABLE\s+" + _NAME, rest, re.IGNORECASE)
    if not source:
        message = "this stand-in has streams ON TABLE alone"
        raise RefusedError(message)
    options, left = _options(rest[source.end() :])
    if left.strip():
        raise _unexpected(left)
    append_only = options.pop("APPEND_ONLY", "FALSE").upper() == "TRUE"
    initial = options.pop("SHOW_INITIAL_ROWS", "FALSE").upper() == "TRUE"
    options.pop("COMMENT", None)
    if options:
        raise _unexpected(" ".join(options))
    exists, replace = bool(match["exists"]), bool(match["replace"])
    return CreateStream(match["name"], source["name"], append_only, initial, replace, exists)


def _create_task(match: re.Match[str], rest: str) -> CreateTask:
    options, left = _options(rest)
    if unknown := set(options) - _TASK_OPTIONS:
        raise _unexpected(" ".join(sorted(unknown)))
    behind = _AFTER.match(left)
    left = left[behind.end() :] if behind else left
    after = tuple(re.findall(ANY_NAME, behind["after"])) if behind else ()
    condition = _WHEN.match(left)
    begin = condition or _AS.match(left)
    if not begin:
        raise _unexpected(left or "the end: a task needs AS")
    when = condition["when"] if condition else ""
    if when and not _HAS_DATA.search(when):
        message = f"WHEN takes SYSTEM$STREAM_HAS_DATA alone, not {when}"
        raise RefusedError(message)
    schedule = options.get("SCHEDULE", "")
    _require_one_way(schedule, after, when)
    seconds = parse_schedule(schedule) if schedule else _SCHEDULE_SECONDS.start
    failures = int(options.get("SUSPEND_TASK_AFTER_NUM_FAILURES", _FAILURES_MAX))
    definition = left[begin.end() :].strip()
    exists, replace = bool(match["exists"]), bool(match["replace"])
    warehouse = options.get("WAREHOUSE", "")
    parse_body(definition)
    return CreateTask(match["name"], schedule, seconds, warehouse, when, definition, failures, replace, exists, after)


def _require_one_way(schedule: str, after: tuple[str, ...], when: str) -> None:
    message = ""
    if schedule and after:
        message = "a task with predecessors cannot have a SCHEDULE: the root of its graph has one"
    elif not schedule and not after and not when:
        message = "a task needs a SCHEDULE, or a WHEN that waits for a stream"
    if message:
        raise RefusedError(message)


def _options(text: str) -> tuple[dict[str, str], str]:
    """Return the options, in capitals, that a text begins with, and what is left of it."""
    options = {}
    while match := _OPTION.match(text):
        value = match["value"]
        options[match["key"].upper()] = value[1:-1].replace("''", "'") if value.startswith("'") else value
        text = text[match.end() :]
    return options, text


def _alter_task(match: re.Match[str], rest: str) -> AlterTask:
    states: dict[str, Literal["started", "suspended"]] = {"RESUME": "started", "SUSPEND": "suspended"}
    state = states.get(rest.strip().upper())
    if state is None:
        message = f"this stand-in knows ALTER TASK with RESUME and SUSPEND alone, not {rest.strip()}"
        raise RefusedError(message)
    return AlterTask(match["name"], state, bool(match["exists"]))


def _execute_task(match: re.Match[str], rest: str) -> ExecuteTask:
    if rest.strip():
        raise _unexpected(rest)
    return ExecuteTask(match["name"])


def _end_retention(match: re.Match[str], rest: str) -> EndRetention:
    if rest.strip():
        raise _unexpected(rest)
    return EndRetention(match["name"])


def _grant(match: re.Match[str], rest: str) -> Grant:
    role = re.fullmatch(r"\s*(?:TO|FROM)\s+ROLE\s+(\w+|\"[^\"]+\")", rest, re.IGNORECASE)
    if not role:
        raise _unexpected(rest)
    privileges = tuple(sorted(each.strip().upper() for each in match["privileges"].split(",")))
    kind: Literal["TABLE", "SCHEMA"] = "TABLE" if match["kind"].upper() == "TABLE" else "SCHEMA"
    name = role[1].strip('"') if role[1].startswith('"') else role[1].upper()
    return Grant(match["verb"].upper() == "GRANT", privileges, kind, match["name"], name)


def _drop(match: re.Match[str], rest: str) -> Drop:
    if rest.strip():
        raise _unexpected(rest)
    return Drop("STREAM" if match["kind"].upper() == "STREAM" else "TASK", match["name"], bool(match["exists"]))


def _show(match: re.Match[str], rest: str) -> Show:
    like = re.match(r"\s*LIKE\s+'(?P<like>[^']*)'", rest, re.IGNORECASE)
    rest = rest[like.end() :] if like else rest
    where = re.fullmatch(r"\s*(?:IN\s+SCHEMA\s+" + _NAME + r")?\s*", rest, re.IGNORECASE)
    if not where:
        raise _unexpected(rest)
    kind: Literal["STREAM", "TASK"] = "STREAM" if match["kind"].upper() == "STREAM" else "TASK"
    return Show(kind, like["like"] if like else "", where["name"] or "")


def _unexpected(text: str) -> RefusedError:
    return RefusedError(f"syntax error: unexpected {text.strip()!r}")


_MAKERS: Final = (
    (r"SHOW\s+TRANSACTIONS$", lambda _match, _rest: ShowTransactions()),
    (
        r"SELECT\s+SYSTEM\$ABORT_TRANSACTION\('?(?P<number>\d+)'?\)$",
        lambda m, _rest: AbortTransaction(int(m["number"])),
    ),
    (_CREATE % "STREAM", _create_stream),
    (_CREATE % "TASK", _create_task),
    (r"ALTER\s+TASK\s+(?P<exists>IF\s+EXISTS\s+)?" + _NAME, _alter_task),
    (
        r"SELECT\s+SYSTEM\$TASK_DEPENDENTS_ENABLE\s*\(\s*'(?P<name>(?:[^']|'')+)'\s*\)$",
        lambda m, _rest: EnableDependents(m["name"].replace("''", "'")),
    ),
    (r"ALTER\s+TABLE\s+" + _NAME + r"\s+SET\s+MAX_DATA_EXTENSION_TIME_IN_DAYS\s*=\s*0\b", _end_retention),
    (r"(?P<verb>GRANT|REVOKE)\s+(?P<privileges>[A-Z, ]+?)\s+ON\s+(?P<kind>TABLE|SCHEMA)\s+" + _NAME, _grant),
    (r"EXECUTE\s+TASK\s+" + _NAME, _execute_task),
    (r"DROP\s+(?P<kind>STREAM|TASK)\s+(?P<exists>IF\s+EXISTS\s+)?" + _NAME, _drop),
    (r"SHOW\s+(?:TERSE\s+)?(?P<kind>STREAM|TASK)S\b", _show),
)
