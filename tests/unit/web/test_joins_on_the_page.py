"""The page has every link of the file, and as many tables as fit; what it leaves out it does not praise."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.unit.web.shop import JOIN, SPOLT, now_ms
from tests.unit.web.test_endpoints import StatusReaderOf

from penstock.web.page import TABLES_MAX
from penstock.web.watcher import Watcher
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.web.shop import Shop

NAME = "business_review_join"


def parts(shop: Shop) -> Mapping[str, str]:
    with StatusReaderOf(shop) as reader, shop.held():
        return Watcher(shop.spec, shop.file).look(reader).parts


def test_a_join_is_shown_with_its_state_what_holds_it_up_and_its_letters(shop: Shop) -> None:
    shop.file.with_name("reviews.yaml").write_text(JOIN)
    shop.file.write_text(f"{shop.file.read_text()}joins: [reviews.yaml]\n{SPOLT}")
    shop.run()
    shop.link("big_orders")
    stands = "9 messages of 2 partitions; made again from 4 of 9; it stands still: <a topic is gone>"
    shop.link(NAME, state="failed", error="no", hint="mend it", dead_letters=3, position=stands)

    shown = parts(shop)

    picture = shown["picture"]
    assert "From topics to topics" in picture
    assert f"<strong>{NAME}</strong>" in picture
    assert "it stands still: &lt;a topic is gone&gt;" in picture
    assert "3 dead letters" in picture
    assert f"3: <code>penstock deadletters show FILE {NAME}</code>" in shown["letters"]
    # User code can run again; a join's letters tell what to correct.
    assert f"Replay the dead letters of {NAME}" not in shown["letters"]


def test_a_pipeline_without_spolts_and_joins_has_no_part_for_them(shop: Shop) -> None:
    shop.run()

    shown = parts(shop)

    assert "From topics to topics" not in shown["picture"]
    assert "letters" not in shown


def test_tables_that_do_not_fit_are_not_said_to_go_well_where_they_do_not(shop: Shop) -> None:
    shop.run()
    with closing(open_pipeline_state(shop.spec)) as state:
        names = [f"shop.t{number}" for number in range(TABLES_MAX + 1)]
        state.add_rows("shopdb", dict.fromkeys(names, (1, now_ms())))
        state.save_table_lags("shopdb", dict.fromkeys(names, 0))
    well = parts(shop)["tables"]
    with closing(open_pipeline_state(shop.spec)) as state:
        state.save_table_lags("shopdb", dict.fromkeys(names, now_ms() - 60_000))
    behind = parts(shop)["tables"]

    assert "3 more tables go well; <code>penstock status FILE</code> lists all" in well
    assert "3 more tables, 1 of them not up to date; <code>" in behind
