"""One fault at a time, and after each a look from outside: every change there, once, in order, and both sides equal."""

from __future__ import annotations

import random
import time
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.faults.catalogue import Scene, all_faults
from penstock.faults.trials import Trial
from penstock.faults.witness import Witness
from penstock.faults.workload import SCHEMA, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from penstock.faults.catalogue import Fault
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
    known = all_faults(world.source, with_full_disk=world.has_small_disk, with_join=world.joined is not None)
    faults = [fault for fault in known if not only or fault.name in only]
    trials: list[Trial] = []
    prefix = f"db.{SCHEMA}"
    with (
        Workload(world.connect, f"{seed} {numbers.start}", refused=world.source.refused) as workload,
        Witness(world.bootstrap_servers, world.schematizer, prefix, world.joined) as witness,
    ):
        look = _Look(world, workload, witness)
        say("waiting for the first rows in the warehouse")
        look.settle("start")
        with suppress(KeyboardInterrupt):
            for number, fault in islice(enumerate(_shuffled(faults, seed)), numbers.start, numbers.stop):
                # What a fault may choose depends on its number, not on what came before.
                fault.run(Scene(world, workload, random.Random(f"{seed} {number}"), number))  # noqa: S311 - no secret
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


class _Look:
    """Looks from outside whether all is well again."""

    def __init__(self, world: World, workload: Workload, witness: Witness) -> None:
        self._world = world
        self._workload = workload
        self._witness = witness
        self._ended = time.monotonic()

    def settle(self, fault: str) -> Trial:
        """Write a little more, then wait until both sides are equal, and write on; what came of `fault`."""
        healed = time.monotonic()
        self._world.instances.leader()
        time.sleep(_WRITE_SECONDS)
        self._workload.pause()
        tally = self._witness.tally
        lost, doubled, changes = tally.lost, tally.doubled, tally.changes
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
        with closing(self._world.connect()) as connection:
            self._witness.read()
            self._witness.count_surplus(connection)
        self._workload.resume()
        began, self._ended = self._ended, time.monotonic()
        return Trial(
            fault=fault,
            seconds=seconds,
            lost=tally.lost - lost + abs(missing),
            doubled=tally.doubled - doubled,
            differences=-1 if differences is None else differences,
            examples=tuple(tally.examples[-3:]),
            changes=tally.changes - changes,
            elapsed_seconds=self._ended - began,
        )

    def _missing(self) -> int:
        """How many of the source's changes are not in Kafka yet."""
        try:
            self._witness.read()
            with closing(self._world.connect()) as connection:
                return self._witness.lacks(connection)
        except (PenstockError, self._world.source.refused):
            return -1
