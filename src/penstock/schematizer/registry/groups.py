"""Groups of a subject's schemas that are compared with each other alone.

Source: Confluent Schema Registry documentation, "Compatibility groups". The
config names a property of a schema's metadata; schemas with one value of it
make a group, and so do those without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from penstock.schematizer.contexts import SubjectName, parse_subject
from penstock.schematizer.storage.models import Setting, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue
    from sqlalchemy.orm import Session

GROUP: Final = "compatibilityGroup"


def group_of(session: Session, name: str) -> str | None:
    """Return the property by which the schemas of subject `name` are grouped: its own, its context's, or of all."""
    for each in (name, str(SubjectName(parse_subject(name).context, ""))):
        own = session.scalar(select(Subject.compatibility_group).where(Subject.name == each))
        if own is not None:
            return own
    return global_group(session)


def global_group(session: Session) -> str | None:
    """Return the property where a subject and its context name none."""
    setting = session.get(Setting, GROUP)
    return None if setting is None else setting.value


def group_value(metadata: Mapping[str, JsonValue] | None, group: str) -> JsonValue:
    """Return which group a schema with this metadata is in."""
    properties = (metadata or {}).get("properties")
    return properties.get(group) if isinstance(properties, dict) else None
