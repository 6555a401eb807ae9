"""Keeps a running pipeline's topics as its file says, by the file's schedule.

No link waits for it, and none ends with it: what goes wrong is told in the log, and tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.wiring.background_thread import BackgroundThread
from penstock.wiring.police import police_topics

if TYPE_CHECKING:
    from typing import Self

    from penstock.config.specs import PipelineSpec
    from penstock.core.topic_policy import PolicyFinding

_log = structlog.get_logger()


class ScheduledPolice(BackgroundThread):
    """Polices while a `with` block lasts, which must be the leader's.

    What is under way at the end is not waited for: a setting that is set twice is set.
    """

    waits = "topics could not be looked at"

    def __init__(self, spec: PipelineSpec) -> None:
        """Look as often as `police.every` of the file says; never without it."""
        super().__init__("penstock-police")
        self._spec = spec
        self.pause_seconds = 0 if spec.police is None else spec.police.every or 0
        self._told: set[PolicyFinding] = set()

    def __enter__(self) -> Self:
        """Begin, if there is a period."""
        return super().__enter__() if self.pause_seconds else self

    def work(self) -> float:
        """Look once, and tell."""
        self._tell(police_topics(self._spec, apply=True).findings)
        return self.pause_seconds

    def _tell(self, findings: tuple[PolicyFinding, ...]) -> None:
        """Log what was set, and what cannot be, once for as long as it stays so."""
        for each in findings:
            if each.outcome == "set":
                _log.info("topic set", topic=each.topic, what=each.what, found=each.found, wanted=each.wanted)
            elif each not in self._told:
                place = f"{each.what} of {each.topic} is {each.found}, not {each.wanted}"
                _log.warning("topic not as its rule says", error=f"{place}: {each.reason}", hint=each.hint)
        self._told = {each for each in findings if each.outcome != "set"}
