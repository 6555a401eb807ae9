"""The tables that TABLE_MAP events described, by the number under which ROWS events name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.mysql.events.table_map import parse_table_id, parse_table_map
from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.mysql.types.logged_rows import TableMap
    from penstock.core.tables import TableId

TABLE_ID_BYTES: Final = 6
_NO_TABLE: Final = b"\xff\xff\xff\x00\x00\x00"
_REMEMBERED_MAX: Final = 10_000


class DescribedTables:
    """Numbers of tables last until the end of the file; what an equal event said before is not parsed again."""

    __slots__ = ("_maps", "_parsed", "_tables", "_wanted")

    def __init__(self, wanted: Callable[[TableId], bool]) -> None:
        """Parse only the columns of tables that are `wanted`, which is asked at every call of `describe`."""
        self._wanted = wanted
        self._maps: dict[bytes, TableMap | None] = {}
        self._tables: dict[bytes, TableId] = {}
        self._parsed: dict[bytes, TableMap] = {}

    def forget_numbers(self) -> None:
        """Expect those of another file."""
        self._maps.clear()

    def describe(self, body: memoryview, *, is_mariadb: bool) -> None:
        """Take a TABLE_MAP event after its header; MalformedError if it is not one."""
        number, layout = bytes(body[:TABLE_ID_BYTES]), bytes(body[TABLE_ID_BYTES:])
        if len(self._tables) >= _REMEMBERED_MAX:
            self._tables.clear()
            self._parsed.clear()
        table = self._tables.get(layout)
        if table is None:
            table = self._tables[layout] = parse_table_id(body)
        if not self._wanted(table):
            self._maps[number] = None
            return
        table_map = self._parsed.get(layout)
        if table_map is None:
            table_map = self._parsed[layout] = parse_table_map(body, is_mariadb=is_mariadb)
        self._maps[number] = table_map

    def table_of(self, body: memoryview) -> TableMap | None:
        """Return the table of a ROWS event, None if it is not wanted; MalformedError if nothing described it."""
        number = bytes(body[:TABLE_ID_BYTES])
        table_map = self._maps.get(number)
        if table_map is None and number not in self._maps and number != _NO_TABLE:
            message = f"rows of a table with the id 0x{number[::-1].hex()}, which nothing describes"
            raise MalformedError(message)
        return table_map
