"""What a link's rules do to the steps of a load: what was hidden under one name does not show under another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.transforms.column_patterns import ColumnPatterns, copied_table
from penstock.core.transforms.column_rules import ColumnRule, ColumnRules
from penstock.core.transforms.hashes import Salt
from penstock.core.warehouse.load_plan import Piece, SchemaInPlace, Step
from penstock.links.warehouse.table_state import TableState
from penstock.links.warehouse.treatments import Histories, Treated, treat_moves, treat_step

TABLE = TableId("shop", "customers")
SHADOW = TableId("shop", "_customers_gho")
TEXT = TextType(40, "utf8mb4")
ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
BEFORE = TableSchema(TABLE, (ID, Column("email", TEXT, nullable=True)), ("id",))
RENAME = (("email", "contact"),)
AFTER = BEFORE.with_columns_renamed(RENAME)
SALT = Salt("S", b"a salt of some length")
HASHED = f"hash {SALT.fingerprint}"
EMAILS = ["email", "*.*.email", "shop.*.email", "shop.customers.email", "shop.customers.email*"]
CREATE = SchemaChangeKind.CREATE


def hashing(*patterns: str) -> ColumnRules:
    return ColumnRules((ColumnRule(ColumnPatterns(patterns), SALT),))


def step(
    at: int,
    kind: SchemaChangeKind = SchemaChangeKind.SCHEMA,
    renames: tuple[tuple[str, str], ...] = (),
    table: TableId = TABLE,
) -> Step:
    batch = Batch("shopdb", table, "t", 0, 0, 1, 0, "", 0, "parquet", at, (1, at, 0), (1, at, 0), 0, kind=kind)
    return Step("t", at, (Piece(replace(batch, column_renames=renames), 0),))


def loaded(treated: Treated, at: int) -> TableState:
    return TableState(treated.schema, SchemaInPlace(at, (1, at, 0)), (1, 1, 0))


def history(treated: Treated) -> ColumnHistory:
    assert treated.history is not None
    return treated.history


def hidden_and_renamed(rules: ColumnRules) -> tuple[TableState, ColumnHistory]:
    """What is known of a table once its hashed column has got another name."""
    first = treat_step(rules, Histories(ColumnHistory()), None, step(1), BEFORE)
    then = treat_step(rules, Histories(history(first)), loaded(first, 1), step(2, renames=RENAME), AFTER)
    assert history(then).treated == {"id": "", "contact": HASHED}
    return loaded(then, 2), history(then)


@pytest.mark.parametrize("pattern", EMAILS)
def test_a_renamed_column_stays_hidden_in_a_table_that_begins_anew(pattern: str) -> None:
    rules = hashing(pattern)
    known, past = hidden_and_renamed(rules)

    anew = treat_step(rules, Histories(past), known, step(5, CREATE), AFTER)

    assert history(anew).treated == {"id": "", "contact": HASHED}
    assert anew.step.pieces[0].treatment is not None
    assert anew.schema.column("contact").type != TEXT


@pytest.mark.parametrize("pattern", EMAILS)
@pytest.mark.parametrize("was_there", [False, True])
def test_a_renamed_column_stays_hidden_in_a_shadow_and_once_it_is_swapped_in(pattern: str, was_there: bool) -> None:  # noqa: FBT001 - a test's case
    rules, shadow = hashing(pattern), replace(AFTER, table=SHADOW)
    _, past = hidden_and_renamed(rules)
    # The shadow of a migration before the column got its name, if there was one, has ended by now.
    earlier = treat_step(rules, Histories(ColumnHistory()), None, step(1, table=SHADOW), replace(BEFORE, table=SHADOW))
    known = loaded(earlier, 1).end((1, 2, 0)) if was_there else None

    copied = treat_step(
        rules, Histories(history(earlier), past), known, step(6, CREATE, table=SHADOW), replace(AFTER, table=SHADOW)
    )
    moves = [Move(str(TABLE), "shop._customers_del", 7), Move(str(SHADOW), str(TABLE), 8)]
    deleted = replace(AFTER, table=TableId("shop", "_customers_del"))
    _, swapped = treat_moves(rules, moves, {TABLE: past, SHADOW: history(copied)}, {7: deleted, 8: AFTER})
    again = treat_step(rules, Histories(ColumnHistory(), swapped[TABLE]), None, step(9, CREATE, table=SHADOW), shadow)

    for each in (history(copied), swapped[TABLE], history(again)):
        assert each.treated == {"id": "", "contact": HASHED}


def test_a_table_that_was_treated_under_another_name_has_shadows_that_are() -> None:
    rules, clients = hashing("shop.clients.email"), replace(BEFORE, table=TableId("shop", "clients"))
    first = treat_step(rules, Histories(ColumnHistory()), None, step(1, table=clients.table), clients)
    _, moved = treat_moves(rules, [Move("shop.clients", str(TABLE), 2)], {clients.table: history(first)}, {2: BEFORE})

    copied = treat_step(
        rules,
        Histories(ColumnHistory(), moved[TABLE]),
        None,
        step(3, CREATE, table=SHADOW),
        replace(BEFORE, table=SHADOW),
    )

    assert history(copied).treated == {"id": "", "email": HASHED}


def test_rows_that_came_in_plain_do_not_take_the_place_of_hashed_ones() -> None:
    rules = hashing("email")
    _, past = hidden_and_renamed(rules)
    other = treat_step(rules, Histories(ColumnHistory()), None, step(3), replace(AFTER, table=TableId("shop", "newer")))
    histories = {TABLE: past, TableId("shop", "newer"): history(other)}

    with pytest.raises(TableStoppedError, match=r"shop\.newer, whose rows come in its place") as caught:
        treat_moves(rules, [Move("shop.newer", str(TABLE), 4)], histories, {4: AFTER})

    assert "--full-refresh with shop.customers" in caught.value.hint


@pytest.mark.parametrize(("kind", "original"), [(CREATE, False), (SchemaChangeKind.SCHEMA, True)])
def test_a_new_name_that_the_target_was_not_told_stops_the_table_until_a_rule_says_what_it_is(
    kind: SchemaChangeKind,
    original: bool,  # noqa: FBT001 - a test's case
) -> None:
    first = treat_step(hashing("email"), Histories(ColumnHistory()), None, step(1), BEFORE)
    histories = Histories(ColumnHistory(), history(first)) if original else Histories(history(first))
    known = None if original else loaded(first, 1)

    def anew(*patterns: str, schema: TableSchema = AFTER) -> dict[str, str]:
        return dict(history(treat_step(hashing(*patterns), histories, known, step(5, kind), schema)).treated)

    with pytest.raises(TableStoppedError, match=r"may be email under another name, which was hashed") as caught:
        anew("email")
    assert 'write "!shop.customers.contact" beside the pattern for email' in caught.value.hint
    assert anew("email", "shop.customers.contact") == {"id": "", "contact": HASHED}
    assert anew("email", "!shop.customers.contact") == {"id": "", "contact": ""}
    # Whoever wants to hide emails no more has said so; and a column that is gone alone is no other.
    assert anew("phone") == {"id": "", "contact": ""}
    assert anew("email", schema=replace(BEFORE, columns=(ID,))) == {"id": ""}
    assert anew("email", schema=replace(BEFORE, columns=(*BEFORE.columns, *AFTER.columns[1:]))) == {
        "id": "", "email": HASHED, "contact": "",
    }  # fmt: skip


def test_rules_that_changed_hold_in_a_table_that_begins_anew() -> None:
    known, past = hidden_and_renamed(hashing("email"))

    assert history(treat_step(ColumnRules(), Histories(past), known, step(5, CREATE), AFTER)).treated["contact"] == ""


def test_a_name_that_no_column_has_or_had_stops_the_table_that_begins() -> None:
    with pytest.raises(TableStoppedError, match=r"they name shop\.customers\.emial.*did you mean email\?") as caught:
        treat_step(hashing("shop.customers.emial"), Histories(ColumnHistory()), None, step(1), BEFORE)

    assert "if the column has another one by now, write that one" in caught.value.hint


def test_a_copy_is_known_by_its_name() -> None:
    for name in ("_customers_gho", "_customers_new", "__customers_new"):
        assert copied_table(TableId("shop", name)) == TABLE
    for name in ("customers", "customers_new", "_customers_ghc", "_customers_del", "_customers_old"):
        assert copied_table(TableId("shop", name)) is None
