"""A Snowflake sink has a landing zone, or says that it wants none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import parse
from penstock.core.errors import ConfigError
from penstock.core.tables import TableId
from penstock.wiring.audits import named_audits
from penstock.wiring.sink_kinds.table import landing_kind, sink_kind
from penstock.wiring.zone_status import zone_links

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec

FILE = """\
pipeline: shop
sources: [{{name: s, kind: mysql, host: h, user: u, password_env: P, tables: ["shop.*"]}}]
sinks:
  - {{name: sf, kind: snowflake, account: a, user: u, password_env: Q, database: d, warehouse: w{more}}}
links: [{{from: s, to: sf}}]
"""


def read(more: str) -> PipelineSpec:
    return parse(FILE.format(more=more), "shop.yaml", Path("/etc/penstock"))


@pytest.mark.parametrize(
    ("more", "zones", "said"), [("", 1, "landing  messages"), (", landing: false", 0, "loads    ")]
)
def test_messages_land_unless_the_sink_says_landing_false(more: str, zones: int, said: str) -> None:
    spec = read(more)

    assert len(zone_links(spec)) == zones
    assert any(line.startswith(said) for line in sink_kind(spec, spec.sinks[0]).explain())
    assert list(named_audits(spec)) == ["s-to-sf"]


def test_settings_of_a_landing_zone_are_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError) as refused:
        read(", landing: false, schedule: 1 MINUTE, readers: [R]")

    (mistake,) = refused.value.mistakes
    assert "readers and schedule of a landing zone, and the sink says landing: false: take one out" in mistake


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("1; 2", "the expression is not understood"),
        ("(SELECT 1)", "more than one value of a row"),
        ("COUNT(*)", "more than one value of a row"),
        ("ROW_NUMBER() OVER (ORDER BY a)", "more than one value of a row"),
        ("a, b", "more than one value of a row"),
        ("a b", "more than one value of a row"),
        ("1) FROM (x", "more than one value of a row"),
        ("t.a", "the expression names a table"),
        ("", "should not be empty"),
        (" ", "more than one value of a row"),
    ],
)
@pytest.mark.parametrize("key", ["where: '{}'", "columns: {{b: '{}'}}"])
def test_an_expression_that_is_none_is_refused(key: str, expression: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f", tables: [{{match: ['shop.*'], {key.format(expression)}}}]")

    assert all(told in mistake for mistake in refused.value.mistakes), refused.value.mistakes


def test_the_first_rule_that_matches_a_table_is_its_rule() -> None:
    spec = read(
        """, tables: [{match: [shop.a], where: '"x" = 1'}, {match: ['shop.*'], columns: {y: 'CAST("x" AS INT)'}}]"""
    )

    kind = landing_kind(spec, spec.sinks[0])
    assert kind is not None
    rules = [kind.zone.rule(TableId.parse(name)) for name in ("shop.a", "shop.b", "other.c")]
    assert [rule and (rule.where, rule.columns) for rule in rules] == [
        ('"x" = 1', ()),
        ("", (("y", 'CAST("x" AS INT)'),)),
        None,
    ]
