"""Patterns of links' `columns` that match nothing in their source: a misspelled name must not let a column through."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import PenstockError
from penstock.core.findings import Finding
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.wiring.present_tables import carried_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec

_log = structlog.get_logger()

_AWAY_SECONDS: Final = 60.0
_LOOSE_SECONDS: Final = 3600.0
_HINT: Final = "correct it if it is misspelled; a column that got another name is treated as before"


def examine_columns(spec: PipelineSpec, unfit: Collection[str]) -> Iterator[Finding]:
    """Yield what `penstock check --connect` says of the `columns` of links, but of those of `unfit` sources."""
    for link in spec.links:
        if not _names_columns(spec, link) or link.source in unfit:
            continue
        subject = f"link {link.name}, columns"
        try:
            loose = find_loose(spec, link)
        except PenstockError as error:
            yield Finding("error", subject, error.message, error.hint, error.exit_code)
            continue
        if loose:
            # It may have had that name: who has loaded it then treats it as before, under any other.
            yield Finding("warning", subject, _words(loose), _HINT)
        else:
            yield Finding("ok", subject, "each name of a column is that of one")


def find_loose(spec: PipelineSpec, link: LinkSpec) -> Sequence[str]:
    """Return the patterns without wildcards that match no column of the tables that `link` carries.

    Connects to the source; raises UnavailableError.
    """
    rules = link.columns
    listed = (*rules.drop, *rules.hash, *(pattern for mask in rules.mask for pattern in mask.columns))
    return list(ColumnPatterns(tuple(dict.fromkeys(listed))).unmatched(carried_tables(spec, link)))


class LooseColumns:
    """What is loose in a running link, `told` as people should know it, "" for nothing.

    Looks when it is first asked; again in an hour where it found any, and in a minute where the source was away.
    """

    def __init__(self, spec: PipelineSpec, link: LinkSpec) -> None:
        """Know of nothing yet."""
        self._spec = spec
        self._link = link
        self.told = ""
        self._look_at = 0.0 if _names_columns(spec, link) else float("inf")

    def look(self) -> None:
        """Ask the source if it is time to. That it is away is told elsewhere."""
        if time.monotonic() < self._look_at:
            return
        try:
            loose = find_loose(self._spec, self._link)
        except PenstockError as error:
            _log.debug("columns are not compared", link=self._link.name, error=error.message)
            self._look_at = time.monotonic() + _AWAY_SECONDS
            return
        told = f"{_words(loose)}: {_HINT}" if loose else ""
        if told and told != self.told:
            _log.warning("columns may come as they are", link=self._link.name, why=_words(loose), hint=_HINT)
        self.told = told
        self._look_at = time.monotonic() + _LOOSE_SECONDS if told else float("inf")


def _names_columns(spec: PipelineSpec, link: LinkSpec) -> bool:
    """Whether there is anything to look for: the columns of a join are those that its file names."""
    return link.columns.are_treated and link.source in {source.name for source in spec.sources}


def _words(loose: Sequence[str]) -> str:
    return f"`columns` names {', '.join(loose)}, which no table of the link has now"
