"""Fills a registry's database with schemas, by the service's own code but many to a transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import insert

from penstock.schematizer.registry.schemas import parse_schema
from penstock.schematizer.storage.database import now_ms, open_database
from penstock.schematizer.storage.models import Schema, SchemaKind, Status, Subject, SubjectVersion

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from penstock.bench.schematizer.workload import Request

VERSIONS: Final = 10
"""How many versions a subject has."""

_SUBJECTS_AT_ONCE: Final = 500
# What a bench registers through the API before stays in front of these.
_FIRST_ID: Final = 1_000


@dataclass(frozen=True, slots=True)
class BulkSchema:
    """The text of a schema, and the subject that it is for."""

    subject: str
    text: str

    @property
    def request(self) -> Request:
        """The registration of it."""
        return ("POST", f"/subjects/{self.subject}/versions", json.dumps({"schema": self.text}))


def subject_of(number: int) -> str:
    """The name of a subject."""
    return f"bulk-{number}-value"


def schema_of(subject: int, version: int = 1) -> BulkSchema:
    """A version of a subject; each has one more field than the one before it."""
    fields = [{"name": f"f{n}", "type": ["null", "string"], "default": None} for n in range(version)]
    declared = {"type": "record", "name": f"Bulk{subject}", "fields": fields}
    return BulkSchema(subject_of(subject), json.dumps(declared))


def fill(home: Path, subjects: int) -> int:
    """Make a Schematizer's database in `home` with that many subjects; the first schema's id, the others follow."""
    home.mkdir(parents=True)
    database = open_database(f"sqlite:///{home / 'schematizer.db'}")
    for first in range(0, subjects, _SUBJECTS_AT_ONCE):
        numbers = range(first, min(subjects, first + _SUBJECTS_AT_ONCE))
        database.write(partial(_add, numbers))
    database.close()
    return _FIRST_ID


def _add(numbers: range, session: Session) -> None:
    made = now_ms()
    subjects = [{"id": _FIRST_ID + n, "name": subject_of(n), "kind": SchemaKind.VALUE} for n in numbers]
    schemas, versions = [], []
    for number in numbers:
        for version in range(1, VERSIONS + 1):
            parsed = parse_schema(schema_of(number, version).text)
            row_id = _FIRST_ID + number * VERSIONS + version - 1
            schemas.append(
                {
                    "id": row_id,
                    "fingerprint": parsed.fingerprint,
                    "text_fingerprint": parsed.text_fingerprint,
                    "text": parsed.text,
                    "created_at_ms": made,
                }
            )
            versions.append(
                {
                    "id": row_id,
                    "subject_id": _FIRST_ID + number,
                    "version": version,
                    "schema_id": row_id,
                    "status": Status.ENABLED,
                    "created_at_ms": made,
                }
            )
    session.execute(insert(Subject), subjects)
    session.execute(insert(Schema), schemas)
    session.execute(insert(SubjectVersion), versions)
