"""Several sources in one file: what each needs to itself, and where their tables may meet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.config.link_tables import one_schema, target_patterns
from penstock.config.load import parse
from penstock.core.errors import ConfigError
from penstock.core.tables import TableId
from penstock.wiring.warehouses import load_rules

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec

_SHOP = "{name: a, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*]"
_OTHER = "{name: b, kind: mysql, host: i, user: u, password_env: P, tables: [shop.*]"
_LINKS = "links: [{from: a, to: w}, {from: b, to: w, schema: b_shop}]"


def file(one: str = "", other: str = "", links: str = _LINKS, more: str = "") -> str:
    return f"""\
pipeline: shop
sources:
  - {_SHOP}{one}}}
  - {_OTHER}{other}}}
sinks: [{{name: w, kind: duckdb, path: w.duckdb}}]
{links}
{more}
"""


def read(text: str) -> PipelineSpec:
    return parse(text, "shop.yaml", Path("/etc/penstock"))


def mistakes(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return "\n".join(caught.value.mistakes)


def test_each_source_has_its_own_tracker_or_a_private_one() -> None:
    spec = read(file(other=", tracker: {host: t, user: u, password_env: T}"))

    private, given = (spec.tracker_of(source) for source in spec.sources)
    assert private is None
    assert given is not None
    assert given.host == "t"
    assert spec.is_embedded("tracker")
    assert "T" in spec.secret_names()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (file(more="tracker: {host: t, user: u, password_env: T}"), "tracker: belongs to one source"),
        (
            file(
                ", tracker: {host: t, user: u, password_env: T}",
                ", tracker: {host: t, port: 3306, user: v, password_env: T}",
            ),
            "sources.1.tracker: another source has the tracker at t:3306",
        ),
        (file(more="kafka: {bootstrap_servers: 'k:1', transactions: false}"), "kafka.transactions: without"),
        (
            file(", cascades: reread", more="kafka: {bootstrap_servers: 'k:1', transactions: false}"),
            "sources.0.cascades: reads rows again in Kafka's transactions",
        ),
        (
            file(", large_values: objects", more="kafka: {bootstrap_servers: 'k:1', transactions: false}"),
            "sources.0.large_values: takes Kafka's transactions",
        ),
        (file(", large_values: objects, format: json"), "sources.0.large_values: is for topics in Avro"),
        (file(", replicas: [{host: r}]"), "sources.0.replicas: nobody looks at how far they are behind"),
        (file(links="links: [{from: a, to: w}, {from: b, to: w}]"), "may both have a table shop.t in w"),
        (file(links="links: [{from: a, to: w}, {from: b, to: w, schema: shop}]"), "may both have a table shop.t"),
        (
            file(links="links: [{from: a, to: w}, {from: b, to: w, tables: ['*.o*', '!shop.orders']}]"),
            "may both have a table shop.o in w",
        ),
        (
            file(links="links: [{from: a, to: w}, {from: b, to: w, schema: penstock_b}]"),
            "links.1.schema: schemas that begin with penstock",
        ),
        (
            file(", server_id: 5000", ", server_id: 5100").replace("host: i", "host: h"),
            "sources.1.server_id: sources[0] is on the same server",
        ),
        (
            file(", heartbeat: {}", ", heartbeat: {}").replace("host: i", "host: h"),
            "sources.1.heartbeat: sources[0] is on the same server",
        ),
        (file().replace("name: b,", "name: objects,"), "sources.1.name: is what the link is called that writes files"),
        (file().replace("name: b,", "name: A,"), 'differs from "a" in upper and lower case only'),
    ],
)
def test_what_would_mix_two_sources_is_a_mistake(text: str, told: str) -> None:
    assert told in mistakes(text)


_POSTGRES = "kind: postgres, host: h, database: d, user: u, password_env: P"
_SNOWFLAKE = "kind: snowflake, account: acme-eu, database: D, warehouse: W, user: u, password_env: P"


def two_sinks(one: str, other: str, source: str = "a", tables: str = "shop.u") -> str:
    """A link into each of two sinks, of tables that differ."""
    links = f"links: [{{from: a, to: w, tables: [shop.t]}}, {{from: {source}, to: v, tables: [{tables}]}}]"
    sinks = f"sinks: [{{name: w, {one}}}, {{name: v, {other}}}]"
    return file(links=links).replace("sinks: [{name: w, kind: duckdb, path: w.duckdb}]", sinks)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_POSTGRES, _POSTGRES),
        (_POSTGRES, f"{_POSTGRES}, port: 5432"),
        (_POSTGRES, _POSTGRES.replace("host: h", "host: H").replace("user: u", "user: v")),
        (_SNOWFLAKE, _SNOWFLAKE.replace("acme-eu", "ACME-EU")),
        (f"{_SNOWFLAKE}, landing: one", f"{_SNOWFLAKE}, landing: two"),
        (_SNOWFLAKE, f"{_SNOWFLAKE}, landing: false"),
    ],
)
def test_two_links_of_one_source_would_share_the_record_of_one_database(one: str, other: str) -> None:
    told = mistakes(two_sinks(one, other))

    assert "links.1.to: v is the same database as w, which has a link from a too" in told
    assert "penstock snapshot FILE TABLE --full-refresh --link a-to-w" in told


@pytest.mark.parametrize(
    "text",
    [
        two_sinks(_POSTGRES, _POSTGRES, source="b"),
        two_sinks(_POSTGRES, _POSTGRES.replace("database: d", "database: e")),
        two_sinks(_POSTGRES, f"{_POSTGRES}, port: 5433"),
        two_sinks(_POSTGRES, _POSTGRES.replace("host: h", "host: i")),
        two_sinks(_SNOWFLAKE, _SNOWFLAKE.replace("acme-eu", "acme-us"), source="b", tables="shop.t"),
        two_sinks("kind: duckdb, path: w.duckdb", "kind: duckdb, path: v.duckdb"),
        two_sinks("kind: delta, path: w", "kind: delta, path: v"),
    ],
)
def test_links_that_share_nothing_are_fine(text: str) -> None:
    assert len(read(text).links) == 2


def test_a_link_that_gets_a_database_of_its_own_or_goes_is_fine_again() -> None:
    both = two_sinks(_POSTGRES, _POSTGRES)

    apart = both.replace(f"name: v, {_POSTGRES}", f"name: v, {_POSTGRES.replace('database: d', 'database: e')}")
    together = both.replace("[shop.t]}, {from: a, to: v, tables: [shop.u]}", "[shop.t, shop.u]}")

    assert [len(read(text).links) for text in (apart, together)] == [2, 1]


def test_a_schema_is_given_to_the_tables_of_one_schema_only() -> None:
    text = file().replace(
        "host: i, user: u, password_env: P, tables: [shop.*]", "host: i, user: u, password_env: P, tables: ['*.*']"
    )

    assert "links.1.schema: takes the tables of one schema" in mistakes(text)


def test_sources_with_other_tables_may_share_a_sink_and_one_may_feed_two() -> None:
    apart = "links: [{from: a, to: w, tables: [shop.orders]}, {from: b, to: w, tables: ['shop.*', '!shop.orders']}]"

    assert len(read(file(links=apart)).links) == 2
    assert [link.target_schema for link in read(file()).links] == [None, "b_shop"]


def test_a_link_with_a_schema_treats_columns_by_their_names_in_the_source() -> None:
    patterns = ["shop.customers.email", "*.*.phone", "!shop.x.phone", "iban", "crm.people.name"]

    assert one_schema(["*.*"], ["shop.*", "!shop.x"]) == "shop"
    assert one_schema(["sh*.orders"], ["*.*"]) is None
    assert target_patterns(patterns, "shop", "b") == ["b.customers.email", "b.*.phone", "!b.x.phone", "iban"]
    assert target_patterns(["a[1].people.name"], "a[1]", "b") == ["b.people.name"]


@pytest.mark.parametrize("pattern", ["Shop.customers.email", "SHOP.*.EMAIL", "s?OP.*.email"])
def test_a_link_with_a_schema_hides_columns_whatever_the_case_of_their_patterns(pattern: str) -> None:
    columns = f"columns: {{drop: ['{pattern}']}}"
    spec = read(file(links=f"links: [{{from: a, to: w}}, {{from: b, to: w, schema: crm, {columns}}}]"))

    (rule,) = load_rules(spec, spec.links[1]).columns.rules

    assert rule.patterns.matches(TableId("crm", "customers"), "email")


def test_links_of_several_sources_may_share_a_list_of_columns() -> None:
    shared = "columns: {drop: [shop.customers.email, crm.people.name, shop.secret.x]}"
    sources = file(links=f"links: [{{from: a, to: w, {shared}}}, {{from: b, to: w, schema: b_shop, {shared}}}]")
    text = sources.replace(
        "password_env: P, tables: [shop.*]", "password_env: P, tables: ['crm.*', shop.*, '!shop.secret']"
    )

    assert text != sources
    assert len(read(text.replace("schema: b_shop", "tables: [shop.*], schema: b_shop")).links) == 2


@pytest.mark.parametrize("pattern", ["crm.customers.email", "crm.*.email", "*m.customers.email"])
def test_a_link_with_a_schema_takes_no_pattern_of_columns_by_the_name_that_the_target_has(pattern: str) -> None:
    links = f"links: [{{from: a, to: w}}, {{from: b, to: w, schema: crm, columns: {{drop: ['{pattern}']}}}}]"
    everything = "host: i, user: u, password_env: P, tables: [shop.*, crm.*]"
    text = file(links=links.replace("to: w, schema", "to: w, tables: [shop.*], schema"))

    for each in (text, text.replace("host: i, user: u, password_env: P, tables: [shop.*]", everything)):
        said = mistakes(each)
        assert f'links.1.columns.drop: "{pattern}" means no table that a source has by its `tables`' in said
