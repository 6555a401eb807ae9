"""Docs of many tables in one YAML file: namespaces, their tables, and what is said of each.

shopdb:
  shop.orders:
    owner: orders-team@example.com
    category: sales
    doc: One row for each order
    columns:
      id: Counts up, with gaps
      note: {doc: What the buyer remarked, pii: true}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator

from penstock.config.yaml_lines import Document, Mistake, parse_yaml
from penstock.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

_FILE_BYTES_MAX = 16 << 20


class ColumnDocs(BaseModel):
    """What is said of a column; a text alone is its docs. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    doc: str | None = None
    pii: bool | None = None


class TableDocs(BaseModel):
    """What is said of a table; what is left out stays as it is, and "" takes it away."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    owner: str | None = None
    category: str | None = None
    doc: str | None = None
    columns: dict[str, ColumnDocs] = {}

    @field_validator("columns", mode="before")
    @classmethod
    def _texts_are_docs(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {name: {"doc": said} if isinstance(said, str) else said for name, said in columns.items()}


_Tables = TypeAdapter(dict[str, dict[str, TableDocs]])


def read_documentation(path: Path) -> Mapping[str, Mapping[str, TableDocs]]:
    """Return what the file at `path` says, by namespace and table (database.table).

    Raises ConfigError with all mistakes, each with its line, and UsageError for
    a file that cannot be read.
    """
    document = parse_yaml(_read(path))
    mistakes = list(document.mistakes)
    if not mistakes:
        try:
            return _Tables.validate_python(document.value)
        except ValidationError as error:
            mistakes = [_explain(document, details) for details in error.errors(include_url=False)]
    raise ConfigError(str(path), [str(mistake) for mistake in sorted(mistakes, key=lambda each: each.line)])


def _read(path: Path) -> str:
    hint = "give the path of a YAML file, in UTF-8"
    try:
        content = path.read_bytes()
        if len(content) > _FILE_BYTES_MAX:
            message = f"{path} is larger than {_FILE_BYTES_MAX} bytes"
            raise UsageError(message, "split it into several files")
        return content.decode()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise UsageError(message, hint) from error
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 text (byte {error.start})"
        raise UsageError(message, hint) from error


def _explain(document: Document, details: ErrorDetails) -> Mistake:
    location = details["loc"]
    match details["type"]:
        case "extra_forbidden":
            known = TableDocs if "columns" not in location[:-1] else ColumnDocs
            text = f"unknown key (known here: {', '.join(known.model_fields)})"
        case "dict_type" | "model_type":
            text = "should be a mapping of keys to values"
        case "string_type":
            text = "should be text; in quotes, if it looks like something else"
        case "bool_type":
            text = "should be true or false"
        case _:
            text = details["msg"]
    return Mistake(document.line(location), location, text)
