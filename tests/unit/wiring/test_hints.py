"""What a hint says to type fits the pipeline: whether it runs, which file it has, which table is meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.ports.source_status import SourceStatus
from penstock.ports.state import LinkProgress, TableProgress
from penstock.wiring.health import find_problems
from penstock.wiring.pipeline_status import PipelineStatus

_LINK = LinkProgress("shopdb-to-pg", "7", "running", 0.0, None, 1_000, "", "", behind_since_ms=0)
_LOCKED = "no lock (it waits at offset 9 of the batch topic, and is tried again within 5 s)"
_REFUSED = "no such column (it waits at offset 9 of the batch topic)"
_REFRESH = "put it back, or type: penstock snapshot FILE TABLE --full-refresh"
_RESTART = "stop the pipeline and type: penstock run shop.yaml"


def hints(holder: str, link: LinkProgress = _LINK, *tables: TableProgress) -> list[str]:
    status = PipelineStatus(holder, [link], tables, now_ms=2_000, loading=frozenset({"shopdb-to-pg"}))
    return [each.hint for each in find_problems(status, "shop.yaml") if each.subject != "pipeline"]


def link(state: str) -> LinkProgress:
    return replace(_LINK, state=state, error="no answer", hint="see to it")


def test_what_a_link_does_not_hide_is_a_problem_beside_any_other() -> None:
    loose = replace(_LINK, hint="`columns` names emial: correct it", behind_since_ms=1_000)

    assert hints("", loose) == ["`columns` names emial: correct it", "type: penstock run shop.yaml"]


def table(error: str, hint: str, link: str = "shopdb-to-pg") -> TableProgress:
    return TableProgress(link, "shop.orders", 9, 1_000, 1_000, error, hint)


@pytest.mark.parametrize(
    ("holder", "state", "told"),
    [
        ("pid 7", "retrying", "see to it; then it goes on by itself"),
        ("pid 7", "failed", f"see to it; then {_RESTART}"),
        ("", "failed", "see to it; then type: penstock run shop.yaml"),
        ("", "retrying", "see to it; then type: penstock run shop.yaml"),
    ],
)
def test_a_link_is_started_by_hand_only_where_it_does_not_go_on_by_itself(holder: str, state: str, told: str) -> None:
    assert hints(holder, link(state)) == [told]


@pytest.mark.parametrize(
    ("holder", "error", "hint", "told"),
    [
        ("pid 7", "in other words", "drop it", "drop it; then type: penstock table shop.yaml shop.orders resume"),
        ("pid 7", _LOCKED, "end it", "end it; then it goes on by itself"),
        (
            "pid 7",
            _REFUSED,
            "drop it, and run again",
            "drop it; then type: penstock table shop.yaml shop.orders resume",
        ),
        ("", _REFUSED, "drop it, and run again", "drop it; then type: penstock run shop.yaml"),
    ],
)
def test_a_stopped_table_goes_on_by_what_is_least(holder: str, error: str, hint: str, told: str) -> None:
    assert hints(holder, _LINK, table(error, hint)) == [told]


def test_a_table_that_the_capture_stopped_needs_a_restart() -> None:
    assert hints("pid 7", _LINK, table("a geometry", "leave it out", "shopdb")) == [f"leave it out; then {_RESTART}"]


def test_a_command_in_a_hint_names_the_file_and_the_table_and_is_enough_while_the_pipeline_runs() -> None:
    stopped = table(_REFUSED, _REFRESH)

    refresh = "put it back, or type: penstock snapshot shop.yaml shop.orders --full-refresh"
    assert hints("pid 7", _LINK, stopped) == [refresh]
    assert hints("", _LINK, stopped) == [f"{refresh}; then type: penstock run shop.yaml"]


def test_a_file_in_a_hint_that_is_no_commands_stays() -> None:
    assert hints("pid 7", _LINK, table(_LOCKED, "say tls: {ca: FILE}")) == [
        "say tls: {ca: FILE}; then it goes on by itself"
    ]


def test_a_log_that_may_lack_changes_is_told() -> None:
    source = SourceStatus("shopdb", None, incomplete=(("binlog_do_db: it is kept", "take it out"),))
    status = PipelineStatus("pid 7", [_LINK], (), now_ms=2_000, sources=[source])

    (found,) = [each for each in find_problems(status, "shop.yaml") if each.subject == "shopdb"]

    assert (found.level, found.text) == ("warning", "its log may lack changes: binlog_do_db: it is kept")
    assert found.hint == "take it out"
