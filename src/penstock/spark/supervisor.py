"""Keeps the links of a pipeline running: starts them, starts them again, and knows when to give up."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import structlog
from py4j.protocol import Py4JError, Py4JJavaError

from penstock.core.errors import DisplacedError, FencedError, PenstockError, UnavailableError
from penstock.spark.loss import is_of_lost_worker
from penstock.spark.queries import print_end
from penstock.wiring.mirror import LinkCondition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.queries import QueryPlace
    from penstock.wiring.mirror import Conditions

_log = structlog.get_logger()

_POLL_SECONDS = 1.0
_POLL_ONCE_SECONDS = 0.25
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0)
_HEALTHY_SECONDS = 120.0
"""Longer than a link lives that waits for Kafka, twice, and is given up."""
_DISPLACED_MAX = 3
"""Tasks that Spark has yet to end are few, and each takes a link over once; another instance would do it again."""
_DISK_IS_FULL = "No space left on device"
_CAUSED_BY = "Caused by: "


class Services(Protocol):
    """The servers that this process keeps for its pipeline."""

    def ensure(self) -> None:
        """Start again what has died. Raises PenstockError when that fails."""
        ...


class NoServices:
    """Servers that somebody else looks after."""

    def ensure(self) -> None:
        """See `Services`: nothing is ours to start again."""


class Supervised(Protocol):
    """One link of a running pipeline. After a failure, `close` and `start` it again."""

    @property
    def name(self) -> str:
        """What operators call it."""
        ...

    @property
    def brings_changes_in(self) -> bool:
        """Whether it reads something that no other link of the pipeline writes."""
        ...

    @property
    def goes_on(self) -> bool:
        """Whether it is to be started again when the query that was started last has ended by itself."""
        ...

    def start(self, place: QueryPlace) -> StreamingQuery:
        """Open what the driver side needs and start the query."""
        ...

    def failure(self) -> BaseException | None:
        """What ended the query on the driver side, as it was raised; None if nothing did."""
        ...

    def close(self) -> None:
        """Let go of what the driver side holds. Safe to call twice."""
        ...


@dataclass(slots=True)
class _Runner:
    """One link, its query if it runs, and how often it failed lately."""

    link: Supervised
    place: QueryPlace
    query: StreamingQuery | None = None
    started_at: float = 0.0
    start_after: float = 0.0
    failures: int = 0
    displaced: int = 0
    failed_with: PenstockError | None = None
    given_up: PenstockError | None = None

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.query = self.link.start(self.place)

    def is_due(self) -> bool:
        """Whether it is to be started now."""
        return self.query is None and time.monotonic() >= self.start_after

    @property
    def is_in_vain(self) -> bool:
        """Whether it has been tried as often as a link is that nobody else runs beside."""
        return self.failures > len(_BACKOFF_SECONDS)

    def forget_failures(self) -> None:
        """Count failures anew once it runs well: an outage of last week says nothing of today's."""
        if self.query is not None and self.query.isActive and time.monotonic() - self.started_at > _HEALTHY_SECONDS:
            self.failures = self.displaced = 0

    def end_with_what_is_there(self) -> None:
        """Read what is there by now and be done; failures are counted anew."""
        self.stop()
        self.place = replace(self.place, once=True)
        self.failures, self.start_after = 0, 0.0

    def stop(self) -> None:
        if self.query is not None:
            # Without its JVM there is no query left to stop.
            with suppress(Py4JError, OSError):
                self.query.stop()
            self.query = None
        self.link.close()

    @property
    def done(self) -> bool:
        """Whether it ran to its end, which only happens when all is read once."""
        return self.place.once and not self.link.goes_on and self._is_through()

    def is_through_a_part(self) -> bool:
        """Whether it ran to the end of a part of what there is to do."""
        return self.link.goes_on and self._is_through()

    def _is_through(self) -> bool:
        return self.query is not None and not self.query.isActive and self._error() is None

    def failed(self) -> PenstockError | None:
        """Return what ended the query, if anything did."""
        if self.query is None or self.query.isActive:
            return None
        error = self._error()
        if error is not None and self.link.failure() is None:
            story = print_end(self.place.session, self.query)
            _log.error("Spark ended a link", link=self.link.name, error=error.message, story=story)
        return error

    def _error(self) -> PenstockError | None:
        failure = self.link.failure()
        if isinstance(failure, PenstockError):
            return failure
        printed = failure or (self.query and self.query.exception())
        if printed is None:
            return None
        explained = _explain(f"Spark ended link {self.link.name}", str(printed))
        explained.__cause__ = failure
        return explained


class Supervisor:
    """Runs links side by side. A link that cannot go on leaves the others going."""

    def __init__(
        self, links: Sequence[Supervised], place: QueryPlace, services: Services, conditions: Conditions
    ) -> None:
        """Run `links`; how each is goes into `conditions`, for `penstock status`."""
        self._runners = [_Runner(link, place) for link in links]
        self._services = services
        self._conditions = conditions
        self._poll_seconds = _POLL_ONCE_SECONDS if place.once else _POLL_SECONDS

    def run(self) -> None:
        """Run until every link is done or has given up; raises the first error of those that gave up.

        When all links that bring changes in have given up, what they brought is
        carried to its end, link by link, and the run is over. FencedError ends
        everything at once: another instance has the pipeline. DisplacedError does so
        when it comes again and again.
        """
        try:
            self._watch(self._runners)
            for runner in self._runners:
                if not (runner.done or runner.given_up):
                    runner.end_with_what_is_there()
                    self._watch([runner])
        except (Py4JError, ConnectionError) as error:
            message = f"Spark's JVM is gone: {error}"
            raise UnavailableError(message, "run the pipeline again: it goes on where the targets stand") from error
        finally:
            for runner in self._runners:
                runner.stop()
        if self.gave_up is not None:
            raise self.gave_up

    @property
    def gave_up(self) -> PenstockError | None:
        """The first error of links that gave up."""
        return next((runner.given_up for runner in self._runners if runner.given_up is not None), None)

    def _watch(self, runners: Sequence[_Runner]) -> None:
        """Look after `runners` until all have ended, or nothing more comes in to those that run for ever."""
        while any(not (runner.done or runner.given_up) for runner in runners):
            if self._ran_dry() and not all(runner.place.once for runner in runners):
                _log.error("nothing comes in any more: what is there is carried, then the run ends")
                return
            self._services.ensure()
            self._look_after([runner for runner in runners if not (runner.done or runner.given_up)])
            time.sleep(self._poll_seconds)

    def _ran_dry(self) -> bool:
        """Whether there were links that bring changes in, and all of them have given up."""
        given_up = [runner.given_up is not None for runner in self._runners if runner.link.brings_changes_in]
        return bool(given_up) and all(given_up)

    def _look_after(self, runners: Sequence[_Runner]) -> None:
        """Start those that are due, side by side: each waits for servers and for processes that Spark starts."""
        due = [runner for runner in runners if runner.is_due()]
        with ThreadPoolExecutor(max(1, len(due)), "penstock-start") as threads:
            for runner, error in zip(due, threads.map(_start, due), strict=True):
                if error is not None:
                    self._handle(runner, error)
                elif not runner.given_up:
                    self._conditions[runner.link.name] = self._condition(runner).running()
        for runner in runners:
            failure = runner.failed()
            if failure is not None:
                self._handle(runner, failure)
            elif runner.is_through_a_part():
                runner.stop()
            else:
                runner.forget_failures()

    def _handle(self, runner: _Runner, error: PenstockError) -> None:
        runner.stop()
        if isinstance(error, DisplacedError) and runner.displaced < _DISPLACED_MAX:
            # The link's record tells whoever opens it of another instance. Without one, it was a task of ours.
            runner.displaced += 1
        elif isinstance(error, FencedError):
            raise error
        wait = _BACKOFF_SECONDS[min(runner.failures, len(_BACKOFF_SECONDS) - 1)]
        runner.failures = min(runner.failures + 1, len(_BACKOFF_SECONDS) + 1)
        runner.failed_with = error
        if ends := self._ends_with(runner, error):
            for each in ends:
                self._give_up(each, each.failed_with or error)
            return
        runner.start_after = time.monotonic() + wait
        told = {"error": error.message, "hint": error.hint}
        if error.__cause__ is not None:
            told["story"] = "".join(traceback.format_exception(error.__cause__))
        _log.warning("link starts again", link=runner.link.name, in_seconds=wait, **told)
        self._conditions[runner.link.name] = self._condition(runner).failed("retrying", error)

    def _give_up(self, runner: _Runner, error: PenstockError) -> None:
        runner.stop()
        runner.given_up = error
        _log.error("link stopped", link=runner.link.name, error=error.message, hint=error.hint)
        self._conditions[runner.link.name] = self._condition(runner).failed("failed", error)

    def _condition(self, runner: _Runner) -> LinkCondition:
        return self._conditions.get(runner.link.name, LinkCondition("running"))

    def _ends_with(self, failed: _Runner, error: PenstockError) -> Sequence[_Runner]:
        """Which links give up now that one has failed.

        One whose error may pass goes on for as long as another does, however long that takes: so
        those give up together, when all have been tried in vain, and none stays behind alone.
        """
        if not error.retryable:
            return [failed]
        if self._ran_dry():
            return [failed] if failed.is_in_vain else []
        left = [runner for runner in self._runners if not (runner.done or runner.given_up)]
        return left if all(runner.is_in_vain for runner in left) else []


def _start(runner: _Runner) -> PenstockError | None:
    """Start a link; return why it could not be started, if it is to be started again."""
    try:
        runner.start()
    except PenstockError as error:
        return error
    except Py4JJavaError as error:
        return _explain(f"Spark cannot start link {runner.link.name}", str(error))
    return None


def _explain(what: str, printed: str) -> UnavailableError:
    """Say why `what` happened, from what Spark prints: a message, and the story of its causes in Java's way."""
    if _DISK_IS_FULL in printed:
        hint = "free space below the pipeline's home and in Spark's local directory: nothing is lost"
        return UnavailableError(f"{what}: a disk is full", hint)
    if is_of_lost_worker(printed):
        hint = "it starts again by itself; if that comes again and again, see whether memory ran out, or who ends it"
        return UnavailableError(f"{what}: a Python process of Spark's ended in the middle of its work", hint)
    cause = printed.rpartition(_CAUSED_BY)[2]
    return UnavailableError(f"{what}: {_first_lines(cause)}", "the whole story is in the log")


def _first_lines(text: str) -> str:
    """The message, without the stack below it."""
    message = text.partition("\n\tat ")[0]
    return " ".join(message.strip().splitlines()[:3])[:500]
