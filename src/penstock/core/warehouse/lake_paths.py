"""Where the tables of a lake are below its folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from penstock.core.tables import TableId

_FOLDER_BYTES_MAX: Final = 255
_PATH_SIGNS: Final = re.compile(r"[\x00-\x7f]")


def table_folder(table: TableId) -> str:
    """Where a table is below its lake: SCHEMA/TABLE, characters with a meaning in paths percent-encoded."""
    return "/".join(_folder(name) for name in (table.schema, table.name))


def _folder(name: str) -> str:
    # A name of dots alone would lead to another folder.
    if not name.strip("."):
        return "%2E" * len(name)
    folder = quote(name, safe=" $@")
    # File systems take 255 bytes. Letters as they are have three at most, and a name has 64 characters.
    return (
        folder if len(folder) <= _FOLDER_BYTES_MAX else _PATH_SIGNS.sub(lambda found: quote(found[0], safe=" $@"), name)
    )
