"""What a pipeline remembers of its audits, on every state database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from penstock.adapters.state.audit_results import open_audit_results
from penstock.ports.audit_results import NOT_REACHED, RESULTS_MAX, WHOLE, AuditResult

ORDERS = replace(
    AuditResult("a", "shop.orders", 5, "different", 0.5, 0.25, 0.75, is_below=True, why="it's \x00wrong"),
    threshold=0.9,
    partitions=4,
    unequal=2,
    rows=40,
    wrong_rows=3,
    seconds=1.5,
)


def test_of_each_table_so_many_results_are_kept_and_pipelines_and_tables_do_not_mix(state_url: str) -> None:
    with (
        closing(open_audit_results(state_url, "shop")) as results,
        closing(open_audit_results(state_url, "other")) as other,
    ):
        other.add([ORDERS])
        results.add([replace(ORDERS, table="shop.Orders")])
        for at_ms in range(RESULTS_MAX + 3):
            results.add([replace(ORDERS, began_at_ms=at_ms)])

        kept = [each.began_at_ms for each in results.history("a", "shop.orders")]
        others = len(results.history("a", "shop.Orders")), len(other.history("a", "shop.orders"))

    assert kept == list(range(RESULTS_MAX + 2, 2, -1))
    assert others == (1, 1)


def test_an_audit_that_failed_leaves_what_was_known_of_its_tables(state_url: str) -> None:
    gone = replace(ORDERS, table="shop.dropped", began_at_ms=4)
    failed = AuditResult("a", WHOLE, 6, "failed", why="the source is away")
    b = AuditResult("b", "shop.orders", 1, "equal")
    with closing(open_audit_results(state_url, "shop")) as results:
        results.add([gone, AuditResult("a", WHOLE, 4, "passed")])
        results.add([ORDERS, AuditResult("a", WHOLE, 5, "below")])
        results.add([failed])
        results.add([b])
        results.add([replace(failed, why="it is still away")])

        newest = results.newest()

    assert newest == [replace(failed, why="it is still away"), replace(ORDERS, why="it's \\x00wrong"), b]


def test_when_each_table_was_last_reached_is_remembered(state_url: str) -> None:
    users = replace(ORDERS, table="shop.users")
    with closing(open_audit_results(state_url, "shop")) as results:
        results.add([ORDERS, users])
        results.add([replace(ORDERS, began_at_ms=9), replace(users, began_at_ms=9, state=NOT_REACHED)])
        results.add([replace(ORDERS, audit="b", began_at_ms=12)])

        assert results.last_reached("a") == {"shop.orders": 9, "shop.users": 5}
