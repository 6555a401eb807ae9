"""Figures: one schema asked for by its id, and registrations of what is known, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.bench.figure import Figure
from penstock.bench.schematizer.load import CONNECTIONS, measure_in_turn
from penstock.bench.schematizer.sides import BARE, bare, ours
from penstock.bench.schematizer.workload import REGISTRATION, TABLE, lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.schematizer.load import Loads

_SHARE_OF_BARE: Final = 0.5
_LOOKUP_CPU_MS: Final = 0.5
_LOOKUP_P99_MS: Final = 25.0
_REGISTRATION_CPU_MS: Final = 1.0
_CPU: Final = "server CPU ms per request"


def measure_lookups(lab: Lab) -> Sequence[Figure]:
    """GET of a schema by its id, beside the bare endpoint."""
    home = lab.folder("lookups")
    with ours(home / "ours") as our, bare(home) as peer:
        requests = [lookup(1)]
        loads = measure_in_turn(lab, "lookups-load", {our: requests, peer: requests})
        alone = measure_in_turn(lab, "lookups-alone", {our: requests, peer: requests}, connections=1)
    mine, its, note = loads[our], loads[peer], _note(loads[our], loads[peer])
    what = f"GET of a schema by id, {CONNECTIONS} connections"
    return [
        Figure(what, "requests per CPU second", "more", mine.per_cpu_second, BARE, its.per_cpu_second, _SHARE_OF_BARE),
        Figure(what, _CPU, "less", mine.cpu_ms, BARE, its.cpu_ms, _LOOKUP_CPU_MS, "value", note),
        Figure(f"{what}: p50", "ms", "less", mine.p50_ms, BARE, its.p50_ms),
        Figure(f"{what}: p99", "ms", "less", mine.p99_ms, BARE, its.p99_ms, _LOOKUP_P99_MS, "value"),
        Figure(
            "GET of a schema by id, one connection",
            _CPU,
            "less",
            alone[our].cpu_ms,
            BARE,
            alone[peer].cpu_ms,
            note=_note(alone[our], alone[peer]),
        ),
    ]


def measure_registrations(lab: Lab) -> Sequence[Figure]:
    """Registration of what is known, through both faces; the bare endpoint reads a body and answers a constant."""
    home = lab.folder("registrations")
    figures: list[Figure] = []
    with ours(home / "ours") as our, bare(home) as peer:
        for connections in (CONNECTIONS, 1):
            asked = {our: [REGISTRATION], peer: [REGISTRATION]}
            schema = measure_in_turn(lab, f"registrations-{connections}", asked, connections)
            table = measure_in_turn(lab, f"tables-{connections}", {our: [TABLE]}, connections)[our]
            figures += [
                Figure(
                    f"registration of a known {what}, {connections} connection{'s' if connections > 1 else ''}",
                    _CPU,
                    "less",
                    mine.cpu_ms,
                    BARE,
                    schema[peer].cpu_ms,
                    _REGISTRATION_CPU_MS,
                    "value",
                    _note(mine, schema[peer]),
                )
                for what, mine in (("schema, Confluent face", schema[our]), ("table, /v1/tables", table))
            ]
    return figures


def _note(mine: Loads, its: Loads) -> str:
    return f"rounds: ours {mine.spread()}; peer's {its.spread()}"
