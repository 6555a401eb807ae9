"""What the stand-in answers itself, as queries that fakesnow runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def render_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return a query of rows of texts."""
    names = ", ".join(f'"{name}"' for name in columns)
    if not rows:
        nothing = ", ".join(f"'' AS \"{name}\"" for name in columns)
        return f"SELECT {names} FROM (SELECT {nothing}) WHERE FALSE"  # noqa: S608 - quoted
    listed = " UNION ALL ".join(
        "SELECT " + ", ".join(f'{_text(str(row[name]))} AS "{name}"' for name in columns) for row in rows
    )
    return f"SELECT {names} FROM ({listed})"  # noqa: S608 - quoted


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
