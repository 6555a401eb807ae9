"""Which tasks come after which, and what Snowflake refuses of graphs.

Source: Snowflake user guide, "Create a sequence of tasks with a task graph"; SQL
reference, "CREATE TASK", "ALTER TASK" and "DROP TASK".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.dev.snowflake.refusals import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.dev.snowflake.streams import Name


class Linked(Protocol):
    """A task as graphs see it."""

    state: str
    after: tuple[Name, ...]


def require_predecessors(tasks: Mapping[Name, Linked], name: Name, after: tuple[Name, ...]) -> None:
    """Refuse a task after others that are not there, are in another schema, come after it, or are of several graphs."""
    for each in after:
        if each not in tasks or (each.database, each.schema) != (name.database, name.schema):
            message = f"Invalid predecessor {each} was specified: it is no task of the same schema."
            raise RefusedError(message)
        if each == name or each in followers(tasks, name):
            message = f"Task '{name.name}' would come after itself: a graph has no circles."
            raise RefusedError(message)
    if len({root for each in after for root in roots(tasks, each)}) > 1:
        message = "Graph has more than one root task (one without predecessors). This is not allowed."
        raise RefusedError(message)


def require_suspended(tasks: Mapping[Name, Linked], name: Name) -> None:
    """Refuse what changes the graph of a task, if its root is started."""
    for root in roots(tasks, name):
        if tasks[root].state == "started":
            message = f"Unable to update graph with root task {root} since that root task is not suspended."
            raise RefusedError(message)


def is_alone(tasks: Mapping[Name, Linked], name: Name) -> bool:
    """Whether a task is of no graph: it may be replaced and dropped while it is started."""
    return not tasks[name].after and not followers(tasks, name)


def sever(tasks: Mapping[Name, Linked], name: Name) -> None:
    """Let no task come after this one any more: it is replaced or dropped."""
    for task in tasks.values():
        task.after = tuple(each for each in task.after if each != name)


def roots(tasks: Mapping[Name, Linked], name: Name) -> set[Name]:
    """Return the tasks without predecessors that a task comes after; itself if it has none."""
    after = tasks[name].after
    return {root for each in after for root in roots(tasks, each)} if after else {name}


def followers(tasks: Mapping[Name, Linked], name: Name) -> list[Name]:
    """Return the tasks that come after one, at once or behind others, each behind its predecessors."""
    found: list[Name] = []
    waiting = [each for each, task in tasks.items() if name in task.after]
    while waiting:
        each = waiting.pop(0)
        # One that is found again stands behind a later predecessor.
        found = [other for other in found if other != each] + [each]
        waiting += [other for other, task in tasks.items() if each in task.after]
    return found
