"""Audits of a landing zone: the source, the messages folded by key, and the public table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.config.audits import AuditSpec
from penstock.wiring.audit import run_audit
from penstock.wiring.audits import named_audits

if TYPE_CHECKING:
    from tests.servers.snowflake_case import Landed

    from penstock.core.audit.findings import Stage, StagesFound, TableFindings
ROWS = 40


def fill(landed: Landed) -> None:
    """Bring over a table that was emptied, changed and got a column, and merge it."""
    chain = landed.chain
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, note VARCHAR(40), price DECIMAL(10,2), at DATETIME(6))")
    chain.write("INSERT INTO t0 VALUES (999, 'emptied', 1, NULL)", "TRUNCATE TABLE t0")
    values = "CONCAT('n', seq), seq / 4, '2024-02-29 23:59:59.000001'"
    chain.write(f"INSERT INTO t0 SELECT seq, {values} FROM seq_1_to_{ROWS}")
    chain.start()
    chain.carry()
    chain.write("UPDATE t0 SET note = 'x' WHERE id = 3", "DELETE FROM t0 WHERE id = 4")
    chain.write("ALTER TABLE t0 ADD COLUMN more INT NOT NULL DEFAULT 7", "UPDATE t0 SET more = 8 WHERE id = 5")
    chain.carry()
    landed.merge()
    chain.mirror()


def audit(landed: Landed, wait_seconds: float = 60) -> TableFindings:
    """What an audit by stage says of the table."""
    spec = AuditSpec(source=landed.chain.source, sink="wh", wait_seconds=wait_seconds)
    (found,) = run_audit(landed.chain.spec, spec, lambda _: None, stages=True).tables
    return found


def stages(found: TableFindings) -> StagesFound:
    assert found.stages is not None
    return found.stages


def stage(found: TableFindings, name: Stage) -> TableFindings:
    return dict(stages(found).stages)[name]


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_what_is_wrong_in_a_landing_zone_is_found_where_it_is_wrong_first(landed: Landed) -> None:
    fill(landed)
    assert list(named_audits(landed.chain.spec)) == [landed.link]
    equal = audit(landed)

    landed.ask(f'UPDATE "{landed.chain.name}"."t0" SET "price" = 0 WHERE "id" = 9')
    public = audit(landed)
    landed.ask(f'UPDATE "{landed.chain.name}"."t0" SET "price" = 2.25 WHERE "id" = 9')
    forge(landed, 7, "forged")
    unmerged = audit(landed, wait_seconds=1)
    landed.merge()
    merged = audit(landed)

    assert (equal.state, equal.target_rows, stages(equal).rows) == ("equal", ROWS - 1, ())
    assert [(name, each.state) for name, each in stages(equal).stages] == [
        ("topic", "equal"), ("files", "equal"), ("landing", "equal"),
    ]  # fmt: skip
    assert stage(equal, "landing").target_rows == ROWS - 1
    assert [each.column for each in stage(equal, "landing").not_compared] == ["more"]
    assert (public.state, stage(public, "landing").state) == ("different", "equal")
    assert [(row.key, row.first_wrong) for row in stages(public).rows] == [(("9",), "target")]
    assert (unmerged.state, stage(unmerged, "landing").state) == ("lagging", "different")
    assert "has not merged what landed" in unmerged.why
    assert (merged.state, [row.key for row in merged.rows]) == ("different", [("7",)])
    assert [(row.key, row.first_wrong) for row in stages(merged).rows] == [(("7",), "landing")]
    assert f'somebody wrote to "landing"."{landed.chain.name}.t0": of no topic' in stage(merged, "landing").why
    assert f"penstock snapshot FILE {landed.chain.name}.t0 --full-refresh" in stage(merged, "landing").why


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_landing_zone_of_a_link_with_a_schema_is_looked_up_by_its_own_names(landed: Landed) -> None:
    schema, file = f"at_{landed.chain.name}", landed.chain.file
    file.write_text(file.read_text().replace("to: wh}", f"to: wh, schema: {schema}}}"))
    fill(landed)

    equal = audit(landed)
    landed.ask(f'UPDATE "{schema}"."t0" SET "price" = 0 WHERE "id" = 9')
    public = audit(landed)

    assert (equal.state, equal.target_rows, stage(equal, "landing").state) == ("equal", ROWS - 1, "equal")
    assert stage(equal, "landing").target_rows == ROWS - 1
    assert (public.state, stage(public, "landing").state) == ("different", "equal")
    assert [(row.key, row.first_wrong) for row in stages(public).rows] == [(("9",), "target")]


def forge(landed: Landed, key: int, note: str) -> None:
    """Write a message as somebody might who has the right to."""
    table = f'"landing"."{landed.chain.name}.t0"'
    row = f'{{"op": "u", "row": {{"id": "{key}", "note": "{note}", "price": "1.75", "at": null, "more": "7"}}}}'
    names = '("message", "topic", "partition", "offset", "position", "loaded_at")'
    landed.ask(
        f"INSERT INTO {table} {names} SELECT PARSE_JSON('{row}'), NULL, NULL, NULL, MAX(\"position\"), SYSDATE() "
        f"FROM {table}"
    )
