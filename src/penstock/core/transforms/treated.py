"""A column whose values become others: how each is looked at once, and what its default becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.transforms.constants import fill_value
from penstock.core.transforms.transform import plain_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.tables import Column
    from penstock.core.transforms.transform import Values


def map_texts(values: Values, work: Callable[..., str]) -> Values:
    """Return texts (string[n]) for `values`, null for null; `work` sees every value that differs once."""
    found = values.dictionary_encode()
    texts = [work(value) for value in plain_values(found.dictionary)]
    return pa.array(texts, pa.string()).take(found.indices)


def with_treated_default(column: Column, treated: Column, print_treated: Callable[[Values], str | None]) -> Column:
    """Return `treated` with the default that rows older than `column` must have once they are treated.

    `print_treated` treats one value (array of 1) and prints the result as a
    source prints a default, None for NULL. Where nobody but the source knows the
    value, the same is said of the treated one.
    """
    try:
        value = fill_value(column)
    except ValueError:
        return replace(treated, default=None, default_is_expression=True, filled=None)
    return replace(treated, default=print_treated(value), default_is_expression=False, filled=None)
