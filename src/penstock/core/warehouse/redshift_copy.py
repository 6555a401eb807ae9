"""The COPY of batch files into Redshift (Amazon Redshift Database Developer Guide, "COPY", "Data format parameters").

Nothing that changes or leaves out a value without a word is asked for: no
MAXERROR, EMPTYASNULL, BLANKSASNULL, ACCEPTINVCHARS or TRUNCATECOLUMNS. The
file's CSV is that of `penstock.core.csv_dialect`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.warehouse.dialect import quote_text
from penstock.core.warehouse.dialects import REDSHIFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.batches import Batch
    from penstock.core.csv_dialect import CsvDialect

_COMPRESSIONS = {"gzip": "GZIP", "zstd": "ZSTD"}


@dataclass(frozen=True, slots=True)
class CopyRights:
    """What lets a cluster read the files: a role that it has, or keys. `region` is the bucket's, "" for its own."""

    iam_role: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    region: str = ""

    def render(self) -> str:
        """What COPY is told of it."""
        if self.iam_role:
            rights = [f"IAM_ROLE {_quoted(self.iam_role)}"]
        else:
            rights = [
                f"ACCESS_KEY_ID {_quoted(self.access_key_id)}",
                f"SECRET_ACCESS_KEY {_quoted(self.secret_access_key)}",
            ]
            if self.session_token:
                rights.append(f"SESSION_TOKEN {_quoted(self.session_token)}")
        return " ".join([*rights, f"REGION {_quoted(self.region)}"] if self.region else rights)


def plan_copy(table: str, manifest_url: str, rights: str, dialect: CsvDialect, compression: str) -> str:
    """Return the statement that copies the CSV files of a manifest into `table`, whose name is quoted."""
    return (
        f"COPY {table} FROM {_quoted(manifest_url)} {rights} MANIFEST FORMAT AS CSV NULL AS {_quoted(dialect.null)} "
        f"{_COMPRESSIONS[compression]} DATEFORMAT 'auto' TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"
    )


def can_copy(batch: Batch) -> bool:
    """Whether a COPY reads the file of `batch` as it is. Of NUL in a text Amazon's pages say two things."""
    if not batch.path:
        return True
    written_so = batch.is_stored and batch.format == "csv" and batch.compression in _COMPRESSIONS
    return written_so and batch.dialect is not None and not batch.dialect.has_nul


def group_files(batches: Sequence[Batch]) -> list[list[Batch]]:
    """Return the batches that have files, in groups that one COPY can read: written alike, in their order."""
    groups: dict[tuple[str, CsvDialect | None], list[Batch]] = {}
    for batch in batches:
        if batch.path:
            groups.setdefault((batch.compression, batch.dialect), []).append(batch)
    return list(groups.values())


def _quoted(text: str) -> str:
    return quote_text(text, REDSHIFT)
