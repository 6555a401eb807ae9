"""What the file may say of columns and transforms, and what is said of each mistake."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.config.load import parse
from penstock.core.errors import ConfigError, UsageError
from penstock.core.tables import DecimalType, IntegerType
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.core.transforms.column_rules import ColumnRule, ColumnRules, Drop
from penstock.core.transforms.columns import DropColumns, KeepColumns, RenameColumns
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.filters import Filter
from penstock.core.transforms.hashes import HashColumns, Salt
from penstock.core.transforms.lookups import Lookup
from penstock.core.transforms.masks import Blank, FixedValue, KeepLast, MaskColumns
from penstock.links.transforms import open_column_rules, open_transforms

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.config.spolts import SpoltSpec

PIPELINE = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: P, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: ./w.duckdb}
links:
  - {from: shopdb, to: warehouse%s}
spolts:
  - name: contacts
    from: shopdb.shop.customers
    to: contacts
    transforms:
%s
"""
FILTER = "      - filter: total > 1"
SECRET = "a salt of some length"


def read(columns: str = "", transforms: str = FILTER, directory: Path = Path("/etc/penstock")) -> PipelineSpec:
    return parse(PIPELINE % (columns, transforms), "shop.yaml", directory)


def link(columns: str) -> LinkSpec:
    return read(f", columns: {columns}").links[0]


def spolt(*transforms: str, directory: Path = Path("/etc/penstock")) -> SpoltSpec:
    return read("", "\n".join(f"      - {each}" for each in transforms), directory).spolts[0]


def mistakes(columns: str = "", transforms: str = FILTER) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(columns, transforms)
    return caught.value.mistakes


def test_a_link_says_what_becomes_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PII_SALT", SECRET)
    spec = link(
        "{drop: shop.customers.ssn, hash: [email, '!shop.log.email'], salt_env: PII_SALT, "
        "mask: [phone, {columns: [a, b], keep_last: 4}, {columns: born, value: 1970-01-01}, {columns: n, value: 0}]}"
    )

    rules = open_column_rules(spec.columns)

    assert rules == ColumnRules(
        (
            ColumnRule(ColumnPatterns(("shop.customers.ssn",)), Drop()),
            ColumnRule(ColumnPatterns(("email", "!shop.log.email")), Salt("PII_SALT", SECRET.encode())),
            ColumnRule(ColumnPatterns(("phone",)), Blank()),
            ColumnRule(ColumnPatterns(("a", "b")), KeepLast(4)),
            ColumnRule(ColumnPatterns(("born",)), FixedValue("1970-01-01")),
            ColumnRule(ColumnPatterns(("n",)), FixedValue("0")),
        )
    )
    assert not open_column_rules(read().links[0].columns)


def test_transforms_are_what_the_file_lists_in_its_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PII_SALT", SECRET)
    (tmp_path / "c.csv").write_text("code,region,rate\nde,EU,\nus,,1.5\n")
    spec = spolt(
        "filter: total > 1 AND email IS NOT NULL",
        "keep: [id, email]",
        "drop: total",
        "rename: {email: contact}",
        "mask: {columns: email, keep_last: 4}",
        "hash: {columns: [id], salt_env: PII_SALT}",
        "expression: {name: double, sql: total * 2, type: 'decimal(10,2)'}",
        "lookup: {file: c.csv, match: {country: code}, add: [region, rate], types: {rate: 'decimal(4,2)'}}",
        directory=tmp_path,
    )

    *steps, lookup = open_transforms(spec.transforms)

    assert steps == [
        Filter("total > 1 AND email IS NOT NULL"),
        KeepColumns(("id", "email")),
        DropColumns(("total",)),
        RenameColumns((("email", "contact"),)),
        MaskColumns(("email",), KeepLast(4)),
        HashColumns(("id",), Salt("PII_SALT", SECRET.encode())),
        ExpressionColumn("double", "total * 2", DecimalType(10, 2)),
    ]
    assert isinstance(lookup, Lookup)
    assert lookup.table.rows.select(["region", "rate"]).to_pydict() == {
        "region": ["EU", ""],
        "rate": [None, pytest.approx(1.5)],
    }
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes
    assert SECRET.encode() not in pickle.dumps(spec)


def test_the_salts_are_among_the_secrets_that_a_run_needs() -> None:
    spec = read(", columns: {hash: email, salt_env: LINK_SALT}", "      - hash: {columns: id, salt_env: SPOLT_SALT}")

    assert spec.secret_names() == ("LINK_SALT", "P", "SPOLT_SALT")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("{hash: email}", "line 7: links.0.columns: hashes need a salt: name the environment variable"),
        ("{drop: customers.email}", '"customers.email" is not a column pattern'),
        ("{mask: {columns: a, value: x, keep_last: 1}}", "gives both value and keep_last"),
        ("{mask: {columns: a, keep_last: -1}}", "keep_last"),
        ("{hide: email}", "unknown key (known here: drop, hash, mask, salt_env)"),
        (
            "{drop: shpo.customers.email}",
            'links.0.columns.drop: "shpo.customers.email" means no table that a source has',
        ),
        ("{mask: ['?hop.*.a', {columns: [b, 'sh.*.c*']}]}", 'line 7: links.0.columns.mask: "sh.*.c*" means no table'),
        ("{hash: email, salt_env: 'not a name'}", "should be the name of an environment variable, not its value"),
    ],
)
def test_mistakes_of_columns_are_told_with_their_line(columns: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(f", columns: {columns}"))


@pytest.mark.parametrize(
    "pattern", ["SHOP.customers.email", "shop.a.b.c", "*.customers.email", "s*.*.x", "email", "!shpo.customers.email"]
)
def test_patterns_that_a_table_of_the_source_may_match_are_fine(pattern: str) -> None:
    assert link(f"{{drop: [phone, '{pattern}']}}").columns.drop[0] == "phone"


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ("filter: total >", "line 13: spolts.0.transforms.0.filter: the condition 'total >' lacks something after >"),
        (
            "filter: a = 1\n        drop: b",
            "should have one key of filter, keep, drop, rename, mask, hash, expression, lookup",
        ),
        ("fliter: a = 1", "unknown key (did you mean filter?)"),
        ("expression: {name: x, sql: a, type: number}", "should be one of boolean, tinyint, smallint, int, bigint"),
        ("expression: {name: x, sql: a, type: 'decimal(39,2)'}", "up to 38 digits"),
        ("hash: {columns: a}", "missing key salt_env"),
        ("lookup: {file: c.csv, match: {}, add: x}", "match"),
    ],
)
def test_mistakes_of_transforms_are_told_with_their_line(transform: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes("", f"      - {transform}"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("    function: a:b", "spolts.0.function: is for code of your own, and this spolt has transforms"),
        ("    options: {a: 1}", "spolts.0.options: is for code of your own"),
    ],
)
def test_a_spolt_has_a_function_or_transforms(more: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes("", f"{FILTER}\n{more}"))


def test_transforms_tell_schema_and_key_themselves() -> None:
    text = (PIPELINE % ("", FILTER)).replace("to: contacts", "to: {topic: contacts, key: id}")

    with pytest.raises(ConfigError, match=r"to\.0\.key: transforms set the schema and the key themselves"):
        parse(text, "shop.yaml", Path("/etc/penstock"))


def test_a_spolt_without_either_is_told_so() -> None:
    text = "\n".join((PIPELINE % ("", FILTER)).splitlines()[:-2])

    with pytest.raises(ConfigError, match="missing key function, or transforms"):
        parse(text, "shop.yaml", Path("/etc/penstock"))


def test_a_salt_that_is_missing_or_too_short_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = link("{hash: email, salt_env: PII_SALT}")
    monkeypatch.delenv("PII_SALT", raising=False)
    with pytest.raises(UsageError, match="PII_SALT is not set"):
        open_column_rules(spec.columns)

    monkeypatch.setenv("PII_SALT", "pepper")
    with pytest.raises(UsageError, match="the salt in PII_SALT has 6 bytes, and needs 16 at least") as caught:
        open_column_rules(spec.columns)

    assert "pepper" not in str(caught.value)
    assert "openssl rand -hex 32" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the lookup .*c.csv: No such file"),
        ("", "cannot be used: Empty CSV file"),
        ("code\nde\n", "it has no column region"),
        ("key,region\nde,EU\n", "has no column code"),
        ("code,region\nde,EU\nde,US\n", "more than one row with code = de"),
        ("code,region\nde,EU,x\n", "Expected 2 columns"),
    ],
)
def test_a_lookup_s_file_that_cannot_be_used_is_told_with_the_reason(
    tmp_path: Path, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "c.csv").write_text(content)
    spec = spolt("lookup: {file: c.csv, match: {country: code}, add: region}", directory=tmp_path)

    with pytest.raises(UsageError, match=said):
        open_transforms(spec.transforms)


def test_a_parquet_file_says_its_types_itself(tmp_path: Path) -> None:
    pq.write_table(pa.table({"code": ["de"], "size": pa.array([7], pa.int64()), "odd": [[1]]}), tmp_path / "c.parquet")
    good = "lookup: {file: c.parquet, match: {country: code}, add: size}"

    (lookup,) = open_transforms(spolt(good, directory=tmp_path).transforms)

    assert isinstance(lookup, Lookup)
    assert lookup.table.columns[0].type == IntegerType(64, unsigned=False)
    with pytest.raises(UsageError, match="no column holds values of Arrow's type list"):
        open_transforms(spolt(good.replace("size", "odd"), directory=tmp_path).transforms)
