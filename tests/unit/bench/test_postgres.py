"""What the bench of PostgreSQL shows."""

from __future__ import annotations

from penstock.bench.postgres import decode, load
from penstock.bench.programs.measured import Work
from penstock.core.errors import PenstockError

_OURS = {"receive": Work(1_000, 0.001, 0.1), "decode": Work(1_000, 0.002, 0.1), "encode": Work(1_000, 0.004, 0.1)}


def test_what_decodes_is_held_against_the_engine_and_what_only_receives_is_not() -> None:
    bare, decoded, encoded = decode.plan_figures("bulk", _OURS, Work(1_000, 0.016, 0.1))

    assert (bare.peer_value, bare.ok) == (None, None)
    assert (decoded.ratio, decoded.ok) == (8.0, True)
    assert (encoded.ratio, encoded.ok) == (4.0, False)


def test_a_peer_that_cannot_be_had_is_a_note_and_no_figure() -> None:
    _, decoded, _ = decode.plan_figures("bulk", _OURS, PenstockError("no Java", ""))
    loaded, _ = load.plan_figures(Work(1_000, 1.0, 1.0), PenstockError("no Java", ""))

    assert (decoded.peer_value, loaded.peer_value) == (None, None)
    assert "no Java" in decoded.note
    assert "no Java" in loaded.note
