"""What a lake knows of its own progress: small files beside its tables, of which a table's log says which one counts.

Below `_penstock/PIPELINE/SOURCE/` of the lake:

`tables/TABLE/NUMBER.json`  what the commit of that number makes true of the table; written before it
`tables/TABLE/life.json`    that the table is there; or what is known of one that is there no more
`batches.json`              the offset in the batch topic from which to read on, and those of tables that wait
`renames.json`              the renames that are under way

A commit carries its number in the table's log (Delta's action `txn`), so rows and
the file that speaks of them become visible in one step. A file whose number no
commit has says nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.core.batches import BatchOffset
from penstock.core.errors import START_ANEW, PositionError, TableStoppedError
from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.warehouse.columns import REFRESH_OR_ANEW
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.core.warehouse.schema_text import parse_schema, render_schema
from penstock.links.warehouse.table_state import TableState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.warehouse.load_plan import Deletes
    from penstock.ports.objects import ObjectStore

FOLDER = "_penstock"
_LIFE = "life.json"
_FOLDER_BYTES_MAX = 255
_FOLDER_BEGIN = 150
_RESTORE = f"restore the lake as it was, or {START_ANEW}"


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far a table is: its schema and barriers, and the first Kafka offset not loaded by (topic, partition).

    `leaving`: the table is to be deleted, or is deleted already. `columns` is what is
    known of its columns once a link's rules have treated them.
    """

    state: TableState
    positions: Mapping[tuple[str, int], int] = field(default_factory=dict)
    leaving: bool = False
    columns: ColumnHistory | None = None

    def after(self, state: TableState, positions: Mapping[tuple[str, int], int] | None = None) -> TableProgress:
        """Return it with another state, and with these positions moved."""
        return replace(self, state=state, positions={**self.positions, **(positions or {})})


@dataclass(frozen=True, slots=True)
class Rename:
    """One move of a statement that renames tables: the rows of `origin`, as `version` of it has them, go to `after`."""

    origin: TableProgress
    version: int
    after: TableProgress


class LakeState:
    """The files of one pipeline and source. It decides nothing: the tables' logs do."""

    def __init__(self, store: ObjectStore, pipeline: str, source: str) -> None:
        """Keep them in `store`, the root of the lake."""
        self._store = store
        self._folder = f"{FOLDER}/{quote(pipeline, safe='')}/{quote(source, safe='')}"

    def folder(self, table: TableId) -> str:
        """Where the files of `table` are."""
        return f"{self._folder}/tables/{_as_folder(str(table))}"

    def living(self) -> list[TableId]:
        """Return every table that is there, as its newest file has it: whether that counts, its log says."""
        begin = f"{self._folder}/tables/"
        found: dict[str, TableId | None] = {}
        # In the order of their numbers, and "life.json" behind them, which is empty for a table that is there.
        for key in self._store.list(begin):
            folder, said = key.removeprefix(begin).partition("/")[0], self._get(key) or {}
            if "left" in said:
                found[folder] = None
            elif "schema" in said:
                progress = _parse(said)
                gone = progress.leaving or progress.state.ended
                found[folder] = None if gone else progress.state.schema.table
        return [table for table in found.values() if table is not None]

    def write(self, table: TableId, number: int, progress: TableProgress) -> None:
        """Say what a commit with `number` is going to make true."""
        self._put(self._entry(table, number), _render(progress))

    def read(self, table: TableId, number: int) -> TableProgress:
        """Return what the commit with `number` made true. Raises TableStoppedError if its file is gone."""
        found = self._get(self._entry(table, number))
        if found is None:
            reason = f"the lake has no {self._entry(table, number)}, which says how far the table is"
            hint = f"restore that file; or delete the table's folder, then {REFRESH_OR_ANEW}"
            raise TableStoppedError(str(table), "", "the target's table", reason, hint)
        return _parse(found)

    def forget_others(self, table: TableId, number: int) -> None:
        """Delete the files of the table's other commits."""
        kept = {self._entry(table, number), f"{self.folder(table)}/{_LIFE}"}
        for key in self._store.list(f"{self.folder(table)}/"):
            if key not in kept:
                self._store.delete([key])

    def forget(self, table: TableId, number: int) -> None:
        """Delete the file of one commit."""
        self._store.delete([self._entry(table, number)])

    def life(self, table: TableId) -> TableProgress | bool:
        """Return True for a table that must be there, what is known of one that left, False for none of ours."""
        found = self._get(f"{self.folder(table)}/{_LIFE}")
        if found is None:
            return False
        return _parse(found["left"]) if "left" in found else True

    def set_life(self, table: TableId, left: TableProgress | None = None) -> None:
        """Remember that the table is there, or how it `left`."""
        self._put(f"{self.folder(table)}/{_LIFE}", {} if left is None else {"left": _render(left)})

    def forget_life(self, table: TableId) -> None:
        """Know nothing of the table any more."""
        self._store.delete([f"{self.folder(table)}/{_LIFE}"])

    def batch_offset(self) -> BatchOffset:
        """Return where to read on in the batch topic; 0 at first."""
        found = self._get(f"{self._folder}/batches.json") or {"next_batch_offset": 0}
        return BatchOffset(int(found["next_batch_offset"]), str(found.get("last_message", "")))

    def waiting(self) -> dict[TableId, int]:
        """Return where each table waits in the batch topic."""
        found = self._get(f"{self._folder}/batches.json") or {}
        return {TableId.parse(table): int(offset) for table, offset in found.get("waiting", {}).items()}

    def set_batch_offset(self, offset: int, waiting: Mapping[TableId, int]) -> None:
        """Remember where to read on, and where tables wait."""
        named = {str(table): at for table, at in waiting.items()}
        last = BatchOffset.of(offset).message
        told = {"next_batch_offset": int(offset), "last_message": last, "waiting": named}
        self._put(f"{self._folder}/batches.json", told)

    def renames(self) -> list[Rename]:
        """Return the renames that are under way."""
        found = self._get(f"{self._folder}/renames.json")
        moves = [] if found is None else found["moves"]
        return [Rename(_parse(move["origin"]), int(move["version"]), _parse(move["after"])) for move in moves]

    def set_renames(self, renames: list[Rename]) -> None:
        """Remember the renames that are under way; none when they are done."""
        if not renames:
            self._store.delete([f"{self._folder}/renames.json"])
            return
        moves = [{"origin": _render(r.origin), "version": r.version, "after": _render(r.after)} for r in renames]
        self._put(f"{self._folder}/renames.json", {"moves": moves})

    def _entry(self, table: TableId, number: int) -> str:
        return f"{self.folder(table)}/{number:020d}.json"

    def _put(self, key: str, content: Mapping[str, object]) -> None:
        self._store.put(key, json.dumps(content, ensure_ascii=False).encode())

    def _get(self, key: str) -> dict[str, Any] | None:
        if not self._store.exists(key):
            return None
        try:
            found: dict[str, Any] = json.loads(self._store.get(key))
        except ValueError as error:
            message = f"{key} of the lake is not what Penstock wrote there: {error}"
            raise PositionError(message, _RESTORE) from error
        return found


def _as_folder(name: str) -> str:
    """Return `name` as a folder, no part of which has more than 255 bytes in the usual file systems."""
    quoted = quote(name, safe="")
    if len(quoted) <= _FOLDER_BYTES_MAX:
        return quoted
    return f"{quoted[:_FOLDER_BEGIN]}-{hashlib.sha256(name.encode()).hexdigest()}"


def _render(progress: TableProgress) -> dict[str, object]:
    state = progress.state
    return {
        "schema": render_schema(state.schema),
        "schema_id": state.in_place.schema_id,
        "order": state.in_place.order,
        "border": state.barrier,
        "ended": state.ended,
        "deletes": state.deletes,
        "misfits": state.out_of_range,
        "positions": [[topic, partition, offset] for (topic, partition), offset in progress.positions.items()],
        "leaving": progress.leaving,
        "columns": progress.columns.to_json() if progress.columns else None,
    }


def _parse(fields: Mapping[str, Any]) -> TableProgress:
    in_place = SchemaInPlace(int(fields["schema_id"]), _place(fields["order"]))
    # Lakes of older releases counted no such values, deleted what the source deleted, and had columns as they are.
    deletes: Deletes = "soft" if fields.get("deletes") == "soft" else "hard"
    out_of_range = int(fields.get("misfits", 0))
    state = TableState(
        parse_schema(fields["schema"]), in_place, _place(fields["border"]), bool(fields["ended"]), deletes, out_of_range
    )
    positions = {(str(topic), int(partition)): int(offset) for topic, partition, offset in fields["positions"]}
    treated = fields.get("columns")
    return TableProgress(
        state, positions, bool(fields["leaving"]), ColumnHistory.from_json(treated) if treated is not None else None
    )


def _place(numbers: list[int]) -> tuple[int, int, int]:
    file, offset, row = numbers
    return file, offset, row
