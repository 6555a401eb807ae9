"""Bad states on purpose: a file in the stand-in's home, or SET standin.fault, says what is wrong with the cluster.

    {"state": "disk_full", "statement": "COPY", "times": 1}

`state` is one of `STATES`. `statement` limits it to statements that contain this
text; `times` to so many of them, after which the state is good again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift.errors import INTERNAL, refuse
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.redshift.plan import TargetPlace

FILE = "fault.json"
PAUSED = "paused"
CUT = "cut"

_READS = ("SELECT", "SHOW", "SET", "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "EXPLAIN", "WITH", "ANALYZE")
_ENDS = ("COMMIT", "END", "ROLLBACK", "ABORT")

_RULE = "-----------------------------------------------"
_DISK_FULL = f"\n  {_RULE}\n  error:  Disk Full\n  code:      1016\n  context:   node: 0\n  query:     0\n  {_RULE}"
_ISOLATION = "Serializable isolation violation on table - 0, transactions forming the cycle are: 0, 0 (pid:0)"
STATES = {
    PAUSED: RedshiftError("57P03", "the cluster is paused", fatal=True),
    CUT: RedshiftError("57P01", "terminating connection due to administrator command", fatal=True),
    "read_only": RedshiftError("25006", "cannot execute this statement: the database is read-only"),
    "disk_full": RedshiftError("53100", "Disk Full", _DISK_FULL),
    "query_killed": RedshiftError("57014", "Query (0) cancelled on user's request"),
    "queue_timeout": RedshiftError("57014", "Query (0) cancelled by WLM abort action of Query Monitoring Rule"),
    "timeout": RedshiftError("57014", "Query (0) cancelled on system's request due to statement timeout"),
    "isolation": RedshiftError(INTERNAL, "1023", _ISOLATION),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A bad state; the module tells what its parts mean. `times` of -1 is for ever."""

    state: str
    statement: str = ""
    times: int = -1


def set_fault(home: Path, fault: Fault | None) -> None:
    """Put the stand-in with this home into a bad state, or out of it."""
    file = home / FILE
    if fault is None:
        file.unlink(missing_ok=True)
        return
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(fault)))
    draft.replace(file)


def read_fault(home: Path) -> Fault | None:
    """The bad state that the stand-in is in. Raises RedshiftError for a file that says none."""
    try:
        content = (home / FILE).read_text()
    except FileNotFoundError:
        return None
    return parse_fault(content)


def parse_fault(content: str) -> Fault:
    """A bad state from JSON, or from its name alone. Raises RedshiftError for one that there is not."""
    try:
        fault = Fault(**json.loads(content)) if content.startswith("{") else Fault(content)
    except (ValueError, TypeError) as error:
        message = f"the stand-in does not know the fault {content}"
        raise refuse(message) from error
    if fault.state not in STATES:
        message = f"the stand-in does not know the state {fault.state}"
        raise refuse(message, hint="choose from: " + " ".join(STATES))
    return fault


def take_fault(home: Path, statement: str) -> RedshiftError | None:
    """What `statement` fails with, if it is to fail; a limited state has one time less then."""
    fault = read_fault(home)
    if fault is None or fault.statement.upper() not in statement.upper() or "STANDIN.FAULT" in statement.upper():
        return None
    begins = statement.strip().upper()
    if begins.startswith(_ENDS) or (fault.state == "read_only" and begins.startswith(_READS)):
        return None if not fault.statement else _taken(home, fault)
    return _taken(home, fault)


def _taken(home: Path, fault: Fault) -> RedshiftError:
    if fault.times > 0:
        left = Fault(fault.state, fault.statement, fault.times - 1)
        set_fault(home, left if left.times else None)
    error = STATES[fault.state]
    return RedshiftError(error.sqlstate, error.message, error.detail, error.hint, fatal=error.fatal)


@dataclass(frozen=True, slots=True)
class SetFault:
    """SET standin.fault TO '...', in JSON or the state's name; '' ends it."""

    content: str

    async def run(self, place: TargetPlace) -> str:
        """Write or remove the file."""
        set_fault(place.cluster.home, parse_fault(self.content) if self.content else None)
        return "SET"
