"""Protobuf schemas that were compiled: their descriptors, so that what is known is not compiled again."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Mapped, mapped_column

from penstock.schematizer.formats.schema_types import Dependency, SchemaType, digest
from penstock.schematizer.storage.models import LongText, Model, Name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session


class ProtobufFile(Model):
    """The descriptor (Base64) of a text, which is known by the digest of itself and of what it imports.

    Rows stay when their schemas go: they say what a text means, not that it is registered.
    """

    __tablename__ = "protobuf_files"

    digest: Mapped[str] = mapped_column(Name, primary_key=True)
    descriptor: Mapped[str] = mapped_column(LongText)


def find_descriptor(session: Session, text: str, dependencies: Sequence[Dependency]) -> bytes:
    """Return the descriptor of a text that was registered, b"" if none was."""
    query = select(ProtobufFile.descriptor).where(ProtobufFile.digest == _digest(text, dependencies))
    return base64.b64decode(session.scalar(query) or "")


def keep_descriptor(session: Session, texts: Sequence[str], dependencies: Sequence[Dependency], kept: bytes) -> None:
    """Keep the descriptor of a schema, for each of the `texts` that it has."""
    for each in {_digest(text, dependencies) for text in texts}:
        if session.get(ProtobufFile, each) is None:
            session.add(ProtobufFile(digest=each, descriptor=base64.b64encode(kept).decode()))


def _digest(text: str, dependencies: Sequence[Dependency]) -> str:
    used = sorted((each.name, base64.b64encode(each.descriptor).decode()) for each in dependencies)
    return digest([SchemaType.PROTOBUF, text, used])
