"""Columns that are kept, dropped and renamed, and what becomes of the key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.transforms.rows import CUSTOMERS, EMAIL, ID, TOTAL, applied, table_of

from penstock.core.errors import TableStoppedError
from penstock.core.transforms.columns import DropColumns, KeepColumns, RenameColumns

if TYPE_CHECKING:
    from penstock.core.transforms.transform import Transform

ROW: dict[str, object] = {"id": 1, "email": "a", "total": None}


def test_kept_columns_stand_as_in_the_table() -> None:
    assert KeepColumns(("total", "id")).derive(CUSTOMERS) == replace(CUSTOMERS, columns=(ID, TOTAL))
    assert applied(KeepColumns(("total", "id")), [ROW]) == [{"id": 1, "total": None}]


def test_all_but_the_dropped_columns_stay() -> None:
    assert applied(DropColumns(("email",)), [ROW]) == [{"id": 1, "total": None}]


def test_names_may_be_swapped_and_the_key_is_renamed_with_its_column() -> None:
    swap = RenameColumns((("id", "email"), ("email", "id")))

    assert swap.derive(CUSTOMERS).key == ("email",)
    assert applied(swap, [ROW]) == [{"email": 1, "id": "a", "total": None}]


def test_columns_that_are_not_the_table_s_go_on_behind_its_own() -> None:
    rows = table_of([ROW]).append_column("__penstock_op", pa.array(["c"]))

    _, found = DropColumns(("email",)).apply(CUSTOMERS, rows)

    assert found.to_pylist() == [{"id": 1, "total": None, "__penstock_op": "c"}]


def test_a_table_without_a_key_may_lose_any_column_but_the_last() -> None:
    without = replace(CUSTOMERS, key=())

    assert DropColumns(("id",)).derive(without).columns == (EMAIL, TOTAL)
    with pytest.raises(TableStoppedError, match="no column would be left"):
        DropColumns(("id", "email", "total")).derive(without)


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (DropColumns(("id",)), "it is in the primary key, and a key that is dropped no longer identifies a row"),
        (KeepColumns(("email",)), "customers.id stopped at its transforms: it is in the primary key"),
        (DropColumns(("Email",)), "there is no such column (did you mean email?)"),
        (KeepColumns(("id", "phone")), "there is no such column (known here: id, email, total)"),
        (RenameColumns((("emial", "mail"),)), "did you mean email?"),
        (RenameColumns((("email", "Total"),)), "2 columns would have this name, but for upper and lower case"),
    ],
)
def test_what_does_not_fit_the_table_stops_it(transform: Transform, said: str) -> None:
    with pytest.raises(TableStoppedError) as caught:
        transform.derive(CUSTOMERS)

    assert said in str(caught.value)
