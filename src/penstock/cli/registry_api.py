"""The Schematizer's /v1 as its commands ask it: names quoted, lists read to their end, errors in words."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import httpx

from penstock.core.errors import PenstockError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SIGN_IN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_PAGE_ITEMS = 1000

Answer: TypeAlias = "dict[str, object]"


class RegistryApi:
    """One registry, asked over a client that is its holder's."""

    def __init__(self, client: httpx.Client, author: str = "") -> None:
        """Ask through `client`; `author` is who changes something, for the history."""
        self._client = client
        self._headers = {b"X-Penstock-Author": author.encode()} if author else {}

    def get(self, *names: str, **asked: str | int) -> Answer:
        """Return what is at the path of `names`. Raises PenstockError where there is none, UnavailableError."""
        return self._ask("GET", names, asked)

    def put(self, *names: str, body: Mapping[str, object]) -> Answer:
        """Change what is at the path of `names`; errors as for `get`."""
        return self._ask("PUT", names, {}, body)

    def items(self, *names: str, **asked: str | int) -> Iterator[Answer]:
        """Read a list to its end, page by page; errors as for `get`."""
        after = ""
        while True:
            page = self.get(*names, **asked, limit=_PAGE_ITEMS, **({"after": after} if after else {}))
            items, after = page.get("items"), str(page.get("next", ""))
            if not isinstance(items, list):
                raise self._foreign(str(page))
            yield from items
            if not after:
                return

    def _ask(self, method: str, names: tuple[str, ...], asked: Mapping[str, str | int], body: object = None) -> Answer:
        path = "/v1/" + "/".join(quote(name, safe="") for name in names)
        try:
            response = self._client.request(method, path, params=dict(asked), json=body, headers=self._headers)
        except (httpx.TransportError, httpx.UnsupportedProtocol) as error:
            message = f"no registry answers at {self._client.base_url}: {str(error) or type(error).__name__}"
            hint = 'start one with "penstock schematizer serve", or give its --url'
            raise UnavailableError(message, hint) from error
        try:
            answer = response.json()
        except ValueError as error:
            raise self._foreign(response.text) from error
        if not isinstance(answer, dict):
            raise self._foreign(response.text)
        if response.is_error:
            if not isinstance(answer.get("code"), str):
                raise self._foreign(response.text)
            hint = "sign in with --user and --password-env, or --token-env" if response.status_code in _SIGN_IN else ""
            message = f"{answer.get('message')} ({answer['code']})"
            raise PenstockError(message, hint or str(answer.get("hint") or ""))
        return answer

    def _foreign(self, text: str) -> PenstockError:
        message = f"what answers at {self._client.base_url} is no Schematizer: {text[:200]}"
        return PenstockError(message, "check that --url is a Schematizer")


def find_source(api: RegistryApi, table: str, namespace: str | None) -> Answer:
    """Return the one source called `table` (database.table), in `namespace` or in any for None.

    A database's name may have dots in it, so every way to cut the text in two is
    tried. Raises PenstockError where there is none, and UsageError for several.
    """
    within = {"namespace": namespace} if namespace is not None else {}
    cuts = [place for place, character in enumerate(table) if character == "." and 0 < place < len(table) - 1]
    if not cuts:
        message = f"{table!r} is not the name of a table"
        raise UsageError(message, "write database and table with a dot between, like shop.orders")
    found = [
        source
        for place in cuts
        for source in api.items("sources", table_schema=table[:place], table_name=table[place + 1 :], **within)
    ]
    if not found:
        where = f" in namespace {namespace!r}" if namespace is not None else ""
        hint = 'see "penstock schematizer show --namespace NAME" for those there are'
        message = f"there is no table {table}{where}"
        raise PenstockError(message, hint)
    if len(found) > 1:
        listed = ", ".join(f"{each['namespace']} (database {each['table_schema']})" for each in found)
        message = f"there are several tables {table}: in {listed}"
        raise UsageError(message, "say which one with --namespace")
    return found[0]


def source_names(source: Answer) -> tuple[str, str, str, str]:
    """Return the path of a source, for RegistryApi."""
    return "sources", str(source["namespace"]), str(source["table_schema"]), str(source["table_name"])
