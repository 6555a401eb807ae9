"""`penstock faults`: break a pipeline of real servers, one part at a time, and see that nothing is lost or doubled."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from penstock.cli.option_groups import grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.faults.broken import BrokenPipeline

app = typer.Typer()


class FaultsSource(StrEnum):
    """Kinds of source, as the config names them."""

    MYSQL = "mysql"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True)
class Broken:
    """The pipeline that is broken."""

    source: Annotated[
        FaultsSource, typer.Option(help="What the pipeline reads: mysql starts a MariaDB, postgres a PostgreSQL.")
    ] = FaultsSource.MYSQL
    joins: Annotated[
        bool,
        typer.Option("--joins", help="A join is one of its links, and there is one instance, which keeps its state."),
    ] = False

    double: Annotated[
        bool,
        typer.Option("--double", help="It has a second source, a MariaDB, and a second target, a PostgreSQL."),
    ] = False

    @property
    def words(self) -> str:
        """What it is called in files."""
        second = " with two sources" if self.double else ""
        return f"{self.source.value}{' with a join' if self.joins else ''}{second}"

    def pipeline(self) -> BrokenPipeline:
        """What the suite breaks."""
        from penstock.faults.broken import BrokenPipeline  # noqa: PLC0415 - see `faults`
        from penstock.faults.pick import fault_source  # noqa: PLC0415

        return BrokenPipeline(fault_source(self.source.value), self.joins, self.double)


_Write: TypeAlias = Annotated[
    Path | None, typer.Option("--write", metavar="FILE", help="Put the table between the marks of this document.")
]


@app.command()
@grouped
def faults(
    *,
    count: Annotated[int, typer.Option("--faults", min=1, help="How many faults, one after the other.")] = 200,
    seed: Annotated[
        int | None, typer.Option(help="Decides order and chances; printed, so that a run can be repeated.")
    ] = (None),
    only: Annotated[list[str] | None, typer.Option("--only", metavar="FAULT", help="Only this kind of fault.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", help="Keep each fault's outcome here; a run with the same goes on."),
    ] = None,
    broken: Broken,
    write: _Write = None,
) -> None:
    """Break things and look: source, broker, ZooKeeper, Schematizer, tracker and two instances, on this machine.

    A workload with known content runs all the while. After each fault everything
    that the source committed must be in Kafka once and in order per key, and
    source and warehouse equal. Ends at the first fault after which that is not
    so, exit code 1, and keeps logs and data; Ctrl-C ends it with the table of what
    was tried, and with --keep the next run goes on there. A fault takes 5 to 90 seconds.
    """
    # Imported here so that `faults --help` need not wait for Arrow and the drivers.
    from penstock.bench.machine import describe_machine  # noqa: PLC0415
    from penstock.cli.console import say_note  # noqa: PLC0415
    from penstock.faults.report import render, write_into  # noqa: PLC0415
    from penstock.faults.suite import run_suite  # noqa: PLC0415
    from penstock.faults.trials import TrialFile, choose_seed, require_clean  # noqa: PLC0415
    from penstock.faults.world import World  # noqa: PLC0415

    _require_known(broken, only or ())
    machine = describe_machine()
    kept = TrialFile(keep, seed, broken.words) if keep is not None else None
    chosen = kept.seed if kept is not None else choose_seed() if seed is None else seed
    trials = list(kept.trials) if kept is not None else []
    home = Path(tempfile.mkdtemp(prefix="penstock-faults-"))
    say_note(f"seed {chosen}; logs and data in {home}")
    if len(trials) < count:
        with World(home, broken.pipeline()) as world:
            if not world.has_small_disk:
                say_note("the disk of the state database is not filled: only root may mount a small one")
            numbers = range(len(trials), count)
            trials += run_suite(world, chosen, numbers, say_note, only or (), kept.add if kept else lambda _: None)
    table = render(trials, chosen, machine, datetime.now(UTC).date().isoformat())
    typer.echo(table)
    if write is not None:
        write_into(write, table, broken.words)
    require_clean(trials, f"run it again with --seed {chosen}, and look into {home}")
    shutil.rmtree(home)


def _require_known(broken: Broken, names: Sequence[str]) -> None:
    from penstock.core.errors import UsageError  # noqa: PLC0415
    from penstock.faults.catalogue import all_faults  # noqa: PLC0415

    known = [fault.name for fault in all_faults(broken.pipeline(), with_full_disk=True)]
    if unknown := [name for name in names if name not in known]:
        message = f"there is no fault {unknown[0]!r}"
        raise UsageError(message, "choose from:\n  " + "\n  ".join(known))
