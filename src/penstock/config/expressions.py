"""Expressions in Snowflake's SQL in a pipeline's file."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from penstock.core.errors import UsageError
from penstock.core.warehouse.landing_rules import read_columns


def _expression(text: str) -> str:
    """Return one expression over the columns of a row; ValueError for what is none."""
    try:
        read_columns(text)
    except UsageError as error:
        message = f"{error.message}; {error.hint}"
        raise ValueError(message) from error
    return text.strip()


Expression: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_expression)]
