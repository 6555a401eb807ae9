"""Patterns of links' `columns` that match nothing in their source: a misspelled name must not let a column through."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import PenstockError, UsageError
from penstock.core.findings import Finding
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.wiring.present_tables import carried_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 60.0
_HINT: Final = "correct it; if it is a column to come, or one that got another name since, end the pattern with *"


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
            yield Finding("error", subject, _words(loose), _HINT, UsageError.exit_code)
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
    """What is loose in a running link. Looks when it is first asked, and once a minute then while it found any."""

    def __init__(self, spec: PipelineSpec, link: LinkSpec) -> None:
        """Know of nothing yet."""
        self._spec = spec
        self._link = link
        self._told = ""
        self._look_at = 0.0 if _names_columns(spec, link) else float("inf")

    def look(self) -> str:
        """Return what people should know, "" for nothing. That a source is away is told elsewhere."""
        if time.monotonic() < self._look_at:
            return self._told
        self._look_at = time.monotonic() + _LOOK_SECONDS
        try:
            loose = find_loose(self._spec, self._link)
        except PenstockError as error:
            _log.debug("columns are not compared", link=self._link.name, error=error.message)
            return self._told
        told = f"{_words(loose)}: {_HINT}" if loose else ""
        if told and told != self._told:
            _log.warning("columns may come as they are", link=self._link.name, why=_words(loose), hint=_HINT)
        self._told = told
        if not told:
            self._look_at = float("inf")
        return told


def _names_columns(spec: PipelineSpec, link: LinkSpec) -> bool:
    """Whether there is anything to look for: the columns of a join are those that its file names."""
    return link.columns.are_treated and link.source in {source.name for source in spec.sources}


def _words(loose: Sequence[str]) -> str:
    return f"`columns` names {', '.join(loose)}, which no table of the link has, so it hides nothing"
