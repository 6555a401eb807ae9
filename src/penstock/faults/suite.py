"""One fault at a time, and after each a look from outside: every change there, once, in order, and both sides equal."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.faults.broken import SOURCE_NAMES
from penstock.faults.catalogue import Scene, all_faults
from penstock.faults.trials import Trial
from penstock.faults.witness import Witness
from penstock.faults.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from penstock.faults.catalogue import Fault
    from penstock.faults.witness import Tally
    from penstock.faults.world import World

_WRITE_SECONDS: Final = 1.0
_RECOVER_SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.25


def run_suite(
    world: World,
    seed: int,
    numbers: range,
    say: Callable[[str], None],
    only: Collection[str] = (),
    keep: Callable[[Trial], None] = lambda _: None,
) -> Sequence[Trial]:
    """Try the faults `numbers` (from 0) of the order that `seed` gives, of those named in `only`, or of all.

    Each kind comes before any comes again. Each trial is handed to `keep` as it is
    over. Ends at the first that leaves something lost, doubled or different, for
    what comes behind would be judged wrongly; or at Ctrl-C, without the fault that
    was under way. Raises PenstockError where a fault does not end.
    """
    known = all_faults(world.broken, with_full_disk=world.has_small_disk)
    faults = [fault for fault in known if not only or fault.name in only]
    trials: list[Trial] = []
    with ExitStack() as opened:
        look = _Look(world, [_watched(world, part, f"{seed} {numbers.start}", opened) for part in world.sources])
        say("waiting for the first rows in the warehouse")
        look.settle("start")
        with suppress(KeyboardInterrupt):
            for number, fault in islice(enumerate(_shuffled(faults, seed)), numbers.start, numbers.stop):
                # What a fault may choose depends on its number, not on what came before.
                fault.run(Scene(world, random.Random(f"{seed} {number}"), number))  # noqa: S311 - no secret
                trial = look.settle(fault.name)
                trials.append(trial)
                keep(trial)
                say(f"{number + 1:>4}/{numbers.stop} {fault.name}: {trial.seconds:.1f} s to recover, {trial.says}")
                if not trial.is_clean:
                    break
    return trials


def _shuffled(faults: Sequence[Fault], seed: int) -> Iterator[Fault]:
    """Faults without end; every one comes as often as any other, give or take one."""
    numbers = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    while faults:
        yield from numbers.sample(faults, len(faults))


@dataclass(frozen=True, slots=True)
class _Watched:
    """A source that is written to, and whoever counts what comes of it."""

    part: str
    refused: type[Exception]
    workload: Workload
    witness: Witness


def _watched(world: World, part: str, seed: str, opened: ExitStack) -> _Watched:
    source, name = world.sources[part], SOURCE_NAMES[part]
    joined = world.joined if part == "source" else None
    witness = Witness(world.bootstrap_servers, world.schematizer, f"{name}.{source.schema}", joined)
    workload = Workload(partial(world.connect, part), f"{seed} {name}", refused=source.refused)
    return _Watched(part, source.refused, opened.enter_context(workload), opened.enter_context(witness))


class _Look:
    """Looks from outside whether all is well again."""

    def __init__(self, world: World, watched: Sequence[_Watched]) -> None:
        self._world = world
        self._watched = watched
        self._ended = time.monotonic()

    def settle(self, fault: str) -> Trial:
        """Write a little more, then wait until both sides are equal, and write on; what came of `fault`."""
        healed = time.monotonic()
        self._world.instances.leader()
        time.sleep(_WRITE_SECONDS)
        for each in self._watched:
            each.workload.pause()
        tallies = [each.witness.tally for each in self._watched]
        lost, doubled, changes = _sums(tallies)
        deadline = healed + _RECOVER_SECONDS
        while missing := self._missing():
            if time.monotonic() > deadline:
                break
            self._world.instances.keep_running()
            time.sleep(_POLL_SECONDS)
        differences: int | None = None
        while not missing and differences != 0 and time.monotonic() < deadline:
            self._world.instances.keep_running()
            differences = None if self._missing() else self._world.differences()
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - healed
        for each in self._watched:
            with closing(self._world.connect(each.part)) as connection:
                each.witness.read()
                each.witness.count_surplus(connection)
            each.workload.resume()
        began, self._ended = self._ended, time.monotonic()
        now_lost, now_doubled, now_changes = _sums(tallies)
        return Trial(
            fault=fault,
            seconds=seconds,
            lost=now_lost - lost + abs(missing),
            doubled=now_doubled - doubled,
            differences=-1 if differences is None else differences,
            examples=tuple(example for tally in tallies for example in tally.examples[-3:]),
            changes=now_changes - changes,
            elapsed_seconds=self._ended - began,
        )

    def _missing(self) -> int:
        """How many of the sources' changes are not in Kafka yet; -1 while a source or Kafka does not answer."""
        lacking = 0
        for each in self._watched:
            try:
                each.witness.read()
                with closing(self._world.connect(each.part)) as connection:
                    lacking += each.witness.lacks(connection)
            except (PenstockError, each.refused):
                return -1
        return lacking


def _sums(tallies: Sequence[Tally]) -> tuple[int, int, int]:
    """Changes that were lost, that came again, and all that came."""
    return (
        sum(tally.lost for tally in tallies),
        sum(tally.doubled for tally in tallies),
        sum(tally.changes for tally in tallies),
    )
