"""Keeps a running pipeline's topics as its file says, by the file's schedule.

No link waits for it, and none ends with it: what goes wrong is told in the log, and tried again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

import structlog

from penstock.core.errors import PenstockError
from penstock.wiring.police import police_topics

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.core.topic_policy import PolicyFinding

_log = structlog.get_logger()

_STOP_SECONDS: Final = 2.0


class ScheduledPolice:
    """A thread that polices while a `with` block lasts, which must be the leader's."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Look as often as `police.every` of the file says; never without it."""
        self._spec = spec
        self._every = None if spec.police is None else spec.police.every
        self._told: set[PolicyFinding] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-police", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        if self._every is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End. What is under way is not waited for: a setting that is set twice is set."""
        self._stop.set()
        if self._every is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._tell(police_topics(self._spec, apply=True).findings)
            except PenstockError as error:
                _log.warning("topics could not be looked at", error=error.message, hint=error.hint)
            self._stop.wait(self._every)

    def _tell(self, findings: tuple[PolicyFinding, ...]) -> None:
        """Log what was set, and what cannot be, once for as long as it stays so."""
        for each in findings:
            if each.outcome == "set":
                _log.info("topic set", topic=each.topic, what=each.what, found=each.found, wanted=each.wanted)
            elif each not in self._told:
                place = f"{each.what} of {each.topic} is {each.found}, not {each.wanted}"
                _log.warning("topic not as its rule says", error=f"{place}: {each.reason}", hint=each.hint)
        self._told = {each for each in findings if each.outcome != "set"}
