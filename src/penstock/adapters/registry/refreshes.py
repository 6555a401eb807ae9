"""The refreshes of the Schematizer, over HTTP: `/v1/refreshes` in docs/schematizer-targets.md."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast, get_args
from urllib.parse import quote

import httpx

from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.refreshes import RefreshStatus, plan_moves
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.adapters.registry.access import RegistryAccess
    from penstock.ports.snapshots import Snapshot

_TIMEOUT_SECONDS: Final = 5.0
_PAGE: Final = 1000
_PAGES_MAX: Final = 10


class HttpRefreshes:
    """A `Refreshes`. A refresh is found again by the id of its snapshot, which is its `offset`."""

    def __init__(self, access: RegistryAccess) -> None:
        """Name the service; nothing is sent yet. Raises UsageError as `RegistryAccess.open_client` does."""
        self._url = access.url
        self._client = access.open_client(_TIMEOUT_SECONDS)
        self._ids: dict[str, int] = {}

    def tell(self, snapshot: Snapshot) -> None:
        """See ports/refreshes.Refreshes."""
        refresh = self._find(snapshot) or self._make(snapshot)
        self._ids[snapshot.id] = id_ = int(str(refresh["id"]))
        rows = max(snapshot.rows, int(str(refresh["rows_done"])))
        progress = {"rows_done": rows, "rows_total": snapshot.rows_expected, "offset": snapshot.id}
        known = str(refresh["status"])
        moves = plan_moves(_status(known), snapshot.status)
        for status in moves:
            self._send("PUT", f"/v1/refreshes/{id_}/status", {"status": status, **progress})
        if not moves and known == "in_progress":
            self._send("PUT", f"/v1/refreshes/{id_}/progress", progress)

    def close(self) -> None:
        """Drop the connections."""
        self._client.close()

    def _find(self, snapshot: Snapshot) -> Mapping[str, object] | None:
        """Return the refresh of a snapshot: one that a process made which is gone, too."""
        if snapshot.id in self._ids:
            return self._send("GET", f"/v1/refreshes/{self._ids[snapshot.id]}")
        table, after = TableId.parse(snapshot.table), ""
        for _ in range(_PAGES_MAX):
            asked = {"namespace": snapshot.source, "table_schema": table.schema, "table_name": table.name}
            page = self._send("GET", "/v1/refreshes", query={**asked, "limit": str(_PAGE), "after": after})
            for item in cast("list[Mapping[str, object]]", page["items"]):
                if item["offset"] == snapshot.id:
                    return item
            after = str(page["next"] or "")
            if not after:
                break
        return None

    def _make(self, snapshot: Snapshot) -> Mapping[str, object]:
        names = (snapshot.source, *_names(snapshot))
        options = snapshot.options
        wish = {
            "batch_rows": options.chunk_rows,
            "rows_per_second_max": options.rows_per_second or None,
            "rows_total": snapshot.rows_expected,
            "filter_condition": options.where,
        }
        made = self._send("POST", f"/v1/sources/{'/'.join(quote(each, safe='') for each in names)}/refreshes", wish)
        started = {"status": "in_progress", "offset": snapshot.id}
        return self._send("PUT", f"/v1/refreshes/{made['id']}/status", started)

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None = None, query: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        try:
            response = self._client.request(method, path, json=body, params=query)
        except httpx.TransportError as error:
            message = f"the schematizer at {self._url} cannot be used: {str(error) or type(error).__name__}"
            raise UnavailableError(message, "check that it runs, and that its URL is right") from error
        if response.is_server_error or response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            message = f"the schematizer at {self._url} says {response.status_code} of {method} {path}"
            raise UnavailableError(message, "check that its database runs")
        if not response.is_success:
            message = f"the schematizer at {self._url} says {response.status_code} of {method} {path}"
            raise PenstockError(message, f"see its log; it says: {response.text[:200]}")
        answer: Mapping[str, object] = response.json()
        return answer


def _names(snapshot: Snapshot) -> tuple[str, str]:
    table = TableId.parse(snapshot.table)
    return table.schema, table.name


def _status(text: str) -> RefreshStatus:
    if text not in get_args(RefreshStatus):
        message = f"the schematizer has a status {text!r} of refreshes, which this release does not know"
        raise PenstockError(message, "use the same release of both")
    return cast("RefreshStatus", text)
