"""Values of a file that would be read as something else than their author meant, or that show a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.load import parse
from penstock.core.errors import ConfigError

FILE = """\
pipeline: shop
home: %(home)s
sources:
  - {name: shopdb, kind: mysql, host: h, port: %(port)s, user: cdc, password_env: P, tables: [shop.*]}
sinks: [{name: w, kind: duckdb, path: w.duckdb}]
links: [{from: shopdb, to: w%(link)s}]
audits: [{source: shopdb, sink: w%(audit)s}]
spolts: [{name: s, from: shopdb.shop.t, to: y, transforms: [{drop: a}]%(spolt)s}]
%(more)s
"""


def text(
    *, home: str = "x", port: str = "3306", link: str = "", audit: str = "", spolt: str = "", more: str = ""
) -> str:
    return FILE % {"home": home, "port": port, "link": link, "audit": audit, "spolt": spolt, "more": more}


def mistakes(file: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(file, "shop.yaml", Path("/etc/penstock"))
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (text(audit=", threshold: no"), "line 7: audits.0.threshold: should be a number"),
        (text(audit=", float_tolerance: yes"), "line 7: audits.0.float_tolerance: should be a number"),
        (text(spolt=", timeout_seconds: on"), "line 8: spolts.0.timeout_seconds: should be a number"),
        (text(port="03306"), "line 4: sources.0.port: YAML reads 03306 in base 8, as 1734: put it in quotes if it is"),
        (text(port="33:06"), "line 4: sources.0.port: YAML reads 33:06 in base 60, as 1986: put it in quotes if it is"),
        (
            text(link=", columns: {mask: {columns: zip, value: 00000}}"),
            "line 6: links.0.columns.mask.value: YAML reads 00000 in base 8, as 0: put it in quotes if it is text",
        ),
        (text(spolt=", timeout_seconds: 1:30.5"), "line 8: spolts.0.timeout_seconds: YAML reads 1:30.5 in base 60"),
    ],
)
def test_a_value_that_yaml_reads_as_something_else_is_a_mistake(file: str, said: str) -> None:
    (mistake,) = mistakes(file)

    assert mistake.startswith(said)


@pytest.mark.parametrize("port", ["3306", "3_306", "0xCEA", "+3306"])
def test_other_numbers_are_read_as_they_were(port: str) -> None:
    spec = parse(text(port=port, home='"0100"', audit=", threshold: 1"), "shop.yaml", Path("/etc/penstock"))

    assert (spec.sources[0].port, spec.home.name, spec.audits[0].threshold) == (3306, "0100", 1.0)


@pytest.mark.parametrize(("written", "meant"), [("1e-9", 1e-9), ("1.0e-9", 1e-9), ("2E-3", 2e-3)])
def test_a_number_with_an_exponent_needs_no_point(written: str, meant: float) -> None:
    spec = parse(text(home="1e5x", audit=f", float_tolerance: {written}"), "shop.yaml", Path("/etc/penstock"))

    assert (spec.audits[0].float_tolerance, spec.home.name) == (meant, "1e5x")


@pytest.mark.parametrize(
    "more",
    [
        "state: {url: 'postgresql://u@h/db?password=hush'}",
        "state: {url: 'mysql://u@h/db?charset=utf8mb4&PASSWD=hush'}",
        "state: {url: 'postgresql://u@h/db?sslpassword=hush'}",
        "objects: {url: 's3://AKIA:hush@bucket/p'}",
        "objects: {url: 's3://AKIA:hu/sh@bucket/p'}",
        "objects: {url: 'az://hush@container/p'}",
        "objects: {url: 'abfss://container:hush@account.dfs.core.windows.net/p'}",
    ],
)
def test_a_url_that_holds_a_secret_is_a_mistake_and_is_not_shown(more: str) -> None:
    (mistake,) = mistakes(text(more=more))

    assert "holds a " in mistake
    assert "hush" not in mistake


@pytest.mark.parametrize(
    "more",
    [
        "state: {url: 'postgresql://u@h/db?sslmode=require&passfile=/etc/pgpass'}",
        "objects: {url: 'abfss://container@account.dfs.core.windows.net/p'}",
        "objects: {url: 's3://bucket/a@b:c'}",
    ],
)
def test_a_url_without_a_secret_is_fine(more: str) -> None:
    assert parse(text(more=more), "shop.yaml", Path("/etc/penstock")).pipeline == "shop"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (text(more="web: {actions: }"), "line 9: web.actions: says nothing: write false for nobody to act on the page"),
        (text(more="web: {users: }"), "line 9: web.users: says nothing: name the file of the users, or leave it out"),
        (text(link=", columns: "), "line 6: links.0.columns: says nothing, so it would hide nothing"),
        (text(link=", columns: {drop: , mask: a}"), "line 6: links.0.columns.drop: says nothing, so it would hide"),
        (text(link=", columns: {hash: , salt_env: S}"), "line 6: links.0.columns.hash: says nothing, so it would hide"),
    ],
)
def test_a_key_without_a_value_does_not_open_what_somebody_meant_to_close(file: str, said: str) -> None:
    (mistake,) = mistakes(file)

    assert mistake.startswith(said)
