"""Transforms of a file through the code that workers run: envelopes of a table in, those of another table out."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import frame
from penstock.core.errors import SpoltError
from penstock.core.spolts.avro_records import avro_records
from penstock.links.spolts.load import load_code
from penstock.links.spolts.run import SpoltRunner
from penstock.schematizer.statements.create_table import parse_create_table
from penstock.spolts.testing import Harness, LocalSchemas, create, delete, read, send, update

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.tables import TableSchema
    from penstock.links.spolts.run import Processed
    from penstock.spolts.testing import Result

CUSTOMERS = """\
CREATE TABLE shop.customers (
  id INT PRIMARY KEY, email VARCHAR(40) NOT NULL, phone VARCHAR(20), country CHAR(2), total DECIMAL(10,2)
)"""
PIPELINE = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: P, tables: [shop.*]}
spolts:
  - name: contacts
    from: shopdb.shop.customers
    to: contacts
    transforms:
      - filter: total > 100 AND country IN ('DE', 'AT')
      - lookup: {file: countries.csv, match: {country: code}, add: region}
      - hash: {columns: [id, email], salt_env: PII_SALT}
      - mask: {columns: phone, keep_last: 2}
      - drop: country
      - rename: {id: customer}
"""
SALT = "a salt of some length"


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setenv("PII_SALT", SALT)
    (tmp_path / "countries.csv").write_text("code,region\nDE,north\n")
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return Harness.of_file(tmp_path / "p.yaml", "contacts", [CUSTOMERS])


def customer(number: int, total: str, **more: object) -> dict[str, object]:
    return {"id": number, "email": "a@b.de", "phone": "0123", "country": "DE", "total": Decimal(total), **more}


def out(number: int, total: str, region: str | None = "north") -> dict[str, object]:
    customer, email = (hashed(value) for value in (str(number), "a@b.de"))
    return {"customer": customer, "email": email, "phone": "**23", "total": Decimal(total), "region": region}


def gone(number: int) -> dict[str, object]:
    return {"customer": hashed(str(number)), "email": "", "phone": None, "total": None, "region": None}


def hashed(text: str) -> str:
    return hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_changes_of_a_table_become_those_of_the_transformed_table(harness: Harness) -> None:
    result = harness.run(
        [
            create("shop.customers", customer(1, "250")),
            read("shop.customers", customer(2, "50")),
            update("shop.customers", customer(2, "50"), customer(2, "150", country="AT")),
            update("shop.customers", customer(1, "250"), customer(1, "300")),
            update("shop.customers", customer(1, "300"), customer(1, "10")),
            delete("shop.customers", customer(1, "10")),
            delete("shop.customers", customer(2, "150", country="AT")),
        ]
    )

    changes = [(each.value["op"], each.value["before"], each.value["after"]) for each in result.published]
    assert changes == [
        ("c", None, out(1, "250.00")),
        ("d", gone(2), None),
        ("c", None, out(2, "150.00", None)),
        ("u", out(1, "250.00"), out(1, "300.00")),
        ("d", out(1, "300.00"), None),
        ("d", out(2, "150.00", None), None),
    ]
    assert [each.key for each in result.published] == [{"customer": hashed(key)} for key in "122112"]
    source = result.published[0].value["source"]
    assert (source["connector"], source["table"], source["file"]) == ("mysql", "customers", "harness.000001")
    assert not result.letters


def test_what_comes_out_is_a_table_s_changes_again_with_its_key_and_types(harness: Harness) -> None:
    harness.run([create("shop.customers", customer(1, "250"))])

    (text,) = [text for text in harness.schemas._texts if '"customer"' in text and "Envelope" in text]
    schema = table_schema(text)

    assert schema.key == ("customer",)
    assert [(column.name, column.nullable) for column in schema.columns] == [
        ("customer", False), ("email", False), ("phone", True), ("total", True), ("region", True),
    ]  # fmt: skip


def test_a_spolt_transforms_what_another_one_wrote(tmp_path: Path, harness: Harness) -> None:
    few = "  - {name: few, from: contacts, to: few, transforms: [{keep: [customer, total]}, {filter: total > 1000}]}\n"
    (tmp_path / "p.yaml").write_text(PIPELINE + few)
    first = harness.run([create("shop.customers", customer(number, "999.5")) for number in (1, 2000)])
    second = replace(Harness.of_file(tmp_path / "p.yaml", "few"), schemas=harness.schemas)
    text = next(text for text in harness.schemas._texts if '"customer"' in text and "Envelope" in text)
    schema_id = harness.schemas.register_subject("contacts-value", text)
    values = [
        {**each.value, "after": {**each.value["after"], "total": Decimal(n)}}
        for n, each in enumerate(first.published, 1000)
    ]

    found = second.run([send("contacts", frame(schema_id) + avro_records(text).encode(value)) for value in values])

    assert [each.value["after"] for each in found.published] == [
        {"customer": hashed("2000"), "total": Decimal("1001.00")}
    ]


def test_records_that_are_no_changes_of_a_table_are_refused_and_tombstones_passed_over(tmp_path: Path) -> None:
    few = "spolts:\n  - {name: few, from: numbers, to: few, transforms: [{filter: total > 1}]}\n"
    (tmp_path / "p.yaml").write_text(PIPELINE.partition("spolts:")[0] + few)
    spolt = Harness.of_file(tmp_path / "p.yaml", "few")

    assert not spolt.run([send("numbers", None)]).published
    with pytest.raises(SpoltError, match=r"numbers/0 offset 0: .*no row in a field called before"):
        spolt.run([send("numbers", {"total": 1})])


@pytest.mark.usefixtures("harness")
def test_an_expression_needs_spark(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        PIPELINE.replace("- filter:", "- expression: {name: x, sql: '1', type: int}\n      - filter:")
    )

    with pytest.raises(SpoltError, match="there is no Spark here to evaluate it"):
        Harness.of_file(tmp_path / "p.yaml", "contacts", [CUSTOMERS]).run([create("shop.customers", customer(1, "1"))])


@pytest.mark.usefixtures("harness")
def test_a_transform_that_does_not_fit_the_table_stops_at_the_message_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("total > 100", "totl > 100"))
    misspelled = Harness.of_file(tmp_path / "p.yaml", "contacts", [CUSTOMERS])

    with pytest.raises(SpoltError, match=r"shop\.customers/0 offset 0: .*totl.*did you mean total\?"):
        misspelled.run([create("shop.customers", customer(1, "250"))])


DOCS = "CREATE TABLE shop.docs (id BIGINT PRIMARY KEY, title VARCHAR(40) NOT NULL, body LONGTEXT)"
SPOLT_OF_DOCS = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: P, tables: [shop.*]}
spolts:
  - name: texts
    from: shopdb.shop.docs
    to: texts
    transforms: [TRANSFORMS]
"""


def docs_through(folder: Path, transforms: str) -> Harness:
    (folder / "p.yaml").write_text(SPOLT_OF_DOCS.replace("TRANSFORMS", transforms))
    return Harness.of_file(folder / "p.yaml", "texts", [DOCS])


def test_values_that_the_log_did_not_repeat_are_not_published_as_null(tmp_path: Path) -> None:
    harness = docs_through(tmp_path, "{rename: {body: text}}, {mask: {columns: text, keep_last: 1}}")

    result = harness.run(
        [
            create("shop.docs", {"id": 1, "title": "a", "body": "long"}),
            update(
                "shop.docs",
                {"id": 1},
                {"id": 1, "title": "b"},
                before_lacks=["title", "body"],
                after_lacks=["body"],
            ),
            update("shop.docs", {"id": 1}, {"id": 1, "title": "c", "body": None}, before_lacks=["title", "body"]),
            delete("shop.docs", {"id": 1}, lacks=["title", "body"]),
        ]
    )

    assert [
        [value[name] for name in ("op", "before_lacks", "after_lacks", "after")] for value in result.values("texts")
    ] == [
        ["c", None, None, {"id": 1, "title": "a", "text": "***g"}],
        ["u", '["title", "text"]', '["text"]', {"id": 1, "title": "b", "text": None}],
        ["u", '["title", "text"]', None, {"id": 1, "title": "c", "text": None}],
        ["d", '["title", "text"]', None, None],
    ]


def test_what_cannot_be_known_stops_the_spolt_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("title,body,kind\na,long,letter\n")
    harness = docs_through(tmp_path, "{lookup: {file: texts.csv, match: {title: title, body: body}, add: kind}}")
    untouched = update(
        "shop.docs", {"id": 1}, {"id": 1, "title": "b"}, before_lacks=["title", "body"], after_lacks=["body"]
    )

    with pytest.raises(SpoltError, match=r"offset 0: .*docs\.body .*log lacks its value") as caught:
        harness.run([untouched])

    assert "ALTER TABLE ... REPLICA IDENTITY FULL" in caught.value.hint
    assert "run again" in caught.value.hint


ITEMS = "CREATE TABLE shop.docs (id INT PRIMARY KEY, owner INT, name VARCHAR(20) NOT NULL)"


def test_a_row_that_is_read_again_and_no_longer_wanted_goes_and_is_not_shown(tmp_path: Path) -> None:
    harness = docs_through(tmp_path, "{filter: owner IS NOT NULL}, {filter: name <> ''}, {mask: {columns: name}}")
    harness = replace(harness, tables={"shop.docs": parse_create_table(ITEMS)})

    result = harness.run(
        [
            create("shop.docs", {"id": 1, "owner": 7, "name": "secret"}),
            read("shop.docs", {"id": 1, "owner": None, "name": "secret"}),
            read("shop.docs", {"id": 1, "owner": 8, "name": "secret"}),
        ]
    )

    assert [(value["op"], value["before"], value["after"]) for value in result.values("texts")] == [
        ("c", None, {"id": 1, "owner": 7, "name": "****"}),
        ("d", {"id": 1, "owner": None, "name": ""}, None),
        ("r", None, {"id": 1, "owner": 8, "name": "****"}),
    ]


def test_a_delete_of_a_key_alone_goes_through_filters(tmp_path: Path) -> None:
    harness = docs_through(tmp_path, "{filter: owner > 3 AND name <> ''}, {rename: {id: number}}")
    harness = replace(harness, tables={"shop.docs": parse_create_table(ITEMS)})

    result = harness.run([delete("shop.docs", {"id": 1, "name": ""}), delete("shop.docs", {"id": 2, "name": "x"})])

    assert [(each.key, each.value["before"]) for each in result.published] == [
        ({"number": 1}, {"number": 1, "owner": None, "name": ""})
    ]


def test_a_row_that_is_read_and_not_wanted_lacks_all_but_its_key_where_rows_may(tmp_path: Path) -> None:
    harness = docs_through(tmp_path, "{filter: title = 'a'}")

    result = harness.run(
        [
            read("shop.docs", {"id": 1, "title": "b", "body": "c"}),
            delete("shop.docs", {"id": 1}, lacks=["title", "body"]),
        ]
    )

    gone = {"id": 1, "title": None, "body": None}
    assert [(value["op"], value["before"], value["before_lacks"]) for value in result.values("texts")] == [
        ("d", gone, '["title", "body"]')
    ] * 2


def test_a_column_that_gets_another_name_stops_behind_the_rows_that_have_the_old_one(tmp_path: Path) -> None:
    harness = docs_through(tmp_path, "{filter: region = 'EU'}")
    tables = [
        parse_create_table(f"CREATE TABLE shop.docs (id INT PRIMARY KEY, {name} VARCHAR(9))")
        for name in ("region", "area")
    ]
    rows = [(tables[0], {"id": 1, "region": "EU"}), (tables[0], {"id": 2, "region": "EU"})]
    rows.append((tables[1], {"id": 3, "area": "EU"}))
    raws = [
        raw
        for offset, (table, row) in enumerate(rows)
        for raw, _ in replace(harness, tables={"shop.docs": table})._raws(create("shop.docs", row), offset)
    ]
    done: list[Processed] = []

    with pytest.raises(SpoltError, match=r"offset 2: .*region.*there is no such column") as caught:
        done.extend(_runner(harness).run(raws))

    assert [(part.count, len(part.encoded)) for part in done] == [(2, 2)]
    assert "penstock snapshot FILE TABLE" in caught.value.hint
    (rest,) = _runner(docs_through(tmp_path, "{filter: area = 'EU'}"), harness.schemas).run(raws[2:])
    assert len(rest.encoded) == 1


def _runner(harness: Harness, schemas: LocalSchemas | None = None) -> SpoltRunner:
    given = harness.job.spolt.inputs[0]
    return SpoltRunner(harness.job, load_code(harness.job.spolt), given, schemas or harness.schemas)


def test_a_key_that_gets_another_type_does_not_go_on_in_the_same_topic(tmp_path: Path) -> None:
    text = SPOLT_OF_DOCS.replace("TRANSFORMS", "{filter: name <> ''}").replace("shopdb.shop.docs", "shopdb.shop.*")
    (tmp_path / "p.yaml").write_text(text)
    harness = Harness.of_file(tmp_path / "p.yaml", "texts")
    tables = [
        parse_create_table(f"CREATE TABLE shop.{name} (id {kind} PRIMARY KEY, name VARCHAR(9))")
        for name, kind in (("docs", "INT"), ("other", "BIGINT"), ("docs", "INT"), ("docs", "BIGINT"))
    ]

    def run(table: TableSchema, number: int) -> Result:
        name = str(table.table)
        return replace(harness, tables={name: table}).run([create(name, {"id": number, "name": "a"})])

    for number, table in enumerate(tables[:3]):
        assert [each.key for each in run(table, number).published] == [{"id": number}]
    with pytest.raises(
        SpoltError, match=r'key of shop\.docs was \(id "int"\) in texts, and is \(id "long"\)'
    ) as caught:
        run(tables[3], 4)
    assert caught.value.hint.startswith("name another topic in `to`")
