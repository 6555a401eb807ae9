"""What every mapping of a pipeline's file has in common, and types of single values."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads it from fields' annotations
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,47}$"
Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN)]
Positive: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
Port: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=65535)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]

# Keys and values of sources that older releases named otherwise are read as they were.
Start: TypeAlias = Annotated[
    Literal["auto", "log", "snapshot"], BeforeValidator(lambda said: "snapshot" if said == "copy" else said)
]
TailSliceSeconds: TypeAlias = Annotated[
    float, Field(strict=True, ge=1, le=3600, validation_alias=AliasChoices("tail_slice_seconds", "lease_seconds"))
]
SnapshotCommitSeconds: TypeAlias = Annotated[
    int,
    Field(strict=True, ge=0, le=600, validation_alias=AliasChoices("snapshot_commit_seconds", "copy_commit_seconds")),
]


class Spec(BaseModel):
    """A mapping of the file: unknown keys are mistakes, known keys without a value are as if left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_keys(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        known = known_keys(cls)
        return {key: value for key, value in given.items() if value is not None or key not in known}


_MEANINGS = {
    "full": "yes; the server's certificate must be signed by a trusted authority, and be for its host",
    "ca": "yes; the server's certificate must be signed by a trusted authority",
    "none": "yes, but nobody looks at the server's certificate",
}


LargeValues: TypeAlias = Literal["stop", "objects"]
"""What becomes of a row that is larger than its topic takes: its table stops, or the object store has its message."""

SnapshotTables: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=8)]
"""How many tables snapshots read at once."""


SnapshotReaders: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=8)]
"""How many chunks of one table a snapshot reads at once."""


class TlsSpec(Spec):
    """How a connection to MySQL or MariaDB is encrypted. `tls: {}` is enough where the server's certificate is public.

    The server's certificate must be signed by `ca`, by default by one of this
    machine's authorities, and be for `host`. `verify: ca` does not look at the
    host, `verify: none` at nothing. `cert` and `key` are ours, for a server that
    wants one. All are files in PEM.
    """

    verify: Literal["full", "ca", "none"] = "full"
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def meaning(self) -> str:
        """What is looked at of the server's certificate, in words."""
        return _MEANINGS[self.verify]

    def located(self, directory: Path) -> TlsSpec:
        """Return it with files that are named from `directory` on named from the root."""
        files = {"ca": self.ca, "cert": self.cert, "key": self.key}
        return self.model_copy(update={name: (directory / file).resolve() for name, file in files.items() if file})


def known_keys(spec: type[Spec]) -> tuple[str, ...]:
    """The keys that `spec` understands, as users write them."""
    return tuple(field.alias or name for name, field in spec.model_fields.items())


def specs_in(annotation: object) -> Iterator[type[Spec]]:
    """The specs of the mappings that a field with `annotation` may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for part in get_args(annotation):
        yield from specs_in(part)
