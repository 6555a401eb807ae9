"""Audits a running pipeline by the schedule of its file.

No link waits for an audit, and none ends with one: whatever goes wrong is told, in
the log and in `penstock status`, and the audit is tried again.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from penstock.config.secrets import secret
from penstock.core.errors import PenstockError
from penstock.ports.audit_results import WHOLE, AuditResult
from penstock.wiring.audit import run_audit
from penstock.wiring.audits import last_reached, named_audits, open_results, results_of, send_alert
from penstock.wiring.background_thread import BackgroundThread

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.audit.report import AuditReport

_log = structlog.get_logger()

_AGAIN_SECONDS: Final = 600
"""An audit that could tell nothing of any table is tried again this soon after its end, at most a period after it."""

_TOLD: Final = frozenset({"equal", "different"})
"""The states of a table that was compared."""

_WAIT_SECONDS_MAX: Final = 3600.0


class ScheduledAudits(BackgroundThread):
    """Audits, one at a time. The state database has the last times.

    An audit that is under way at the end is not waited for: it writes nothing but its result.
    """

    waits = "audits wait for the state database"
    pause_seconds = 30.0

    def __init__(self, spec: PipelineSpec) -> None:
        """Run the audits of `spec` that have a period. Raises UsageError for a webhook whose variable is not set."""
        super().__init__("penstock-audits")
        self._spec = spec
        self._audits = {name: audit for name, audit in named_audits(spec).items() if audit.every}
        for audit in self._audits.values():
            if audit.webhook_env is not None:
                secret(audit.webhook_env)

    def __enter__(self) -> Self:
        """Begin, if there is anything to audit."""
        return super().__enter__() if self._audits else self

    def work(self) -> float:
        """Audit, and return in how many seconds the next one is due."""
        for name, audit in self._audits.items():
            if not self._stop.is_set() and seconds_until(self._newest(), name, audit, _now_ms()) <= 0:
                self._keep(self._audited(name, audit))
        newest, now_ms = self._newest(), _now_ms()
        next_ = min(seconds_until(newest, name, audit, now_ms) for name, audit in self._audits.items())
        return min(max(next_, 0.0), _WAIT_SECONDS_MAX)

    def _audited(self, name: str, audit: AuditSpec) -> Sequence[AuditResult]:
        began_at_ms = _now_ms()
        try:
            report = run_audit(self._spec, audit, lambda _: None, last_reached=last_reached(self._spec, name, audit))
        except PenstockError as error:
            _log.error("audit failed", audit=name, error=error.message, hint=error.hint)
            failed = AuditResult(name, WHOLE, began_at_ms, "failed", threshold=audit.threshold)
            why = f"{error.message}; what to do: {error.hint}"
            return [replace(failed, seconds=(_now_ms() - began_at_ms) / 1000, why=why)]
        whole, *tables = results_of(name, report)
        said = _log.warning if report.below or report.unknown else _log.info
        said(
            "audit", audit=name, state=whole.state, score=whole.score, rows=whole.rows, seconds=round(report.seconds, 1)
        )
        return [replace(whole, why=_tell(audit, name, report)), *tables]

    def _newest(self) -> Sequence[AuditResult]:
        with closing(open_results(self._spec)) as results:
            return results.newest()

    def _keep(self, found: Sequence[AuditResult]) -> None:
        if not self._stop.is_set():
            with closing(open_results(self._spec)) as results:
                results.add(found)


def seconds_until(newest: Sequence[AuditResult], name: str, audit: AuditSpec, now_ms: int) -> float:
    """In how many seconds an audit is due, given `AuditResults.newest`; none if it never was.

    One that could tell nothing of any table is due again soon. A table of which nothing can be told for long, since
    it has stopped, say, must not have all the others read again and again.
    """
    mine = [each for each in newest if each.audit == name]
    last, every = next((each for each in mine if each.table == WHOLE), None), audit.every or 0
    if last is None:
        return 0.0
    told = any(each.state in _TOLD for each in mine if each.began_at_ms == last.began_at_ms)
    is_soon = last.state == "failed" or (last.state == "unknown" and not told)
    period = last.seconds + min(every, _AGAIN_SECONDS) if is_soon else every
    # A clock that went back must not put audits off for longer than a period.
    return min(period, (last.began_at_ms - now_ms) / 1000 + period)


def _tell(audit: AuditSpec, name: str, report: AuditReport) -> str:
    """Send the alert, if there is one; return why nobody took it, "" if somebody did."""
    try:
        send_alert(audit, name, report)
    except PenstockError as error:
        _log.error("no alert of an audit", audit=name, error=error.message, hint=error.hint)
        return f"{error.message}; what to do: {error.hint}"
    return ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
