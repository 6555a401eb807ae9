"""The topic rule: what keeps a shape of a table off a topic.

A shape stays on the newest topic if everybody who reads that topic can read it
and the other way round: it is compatible both ways, exactly, with every schema
there that is not disabled, its key encodes to the same bytes, it is as private,
in a cluster of the same type, and derived from the same schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.compatibility import same_encoding
from penstock.schematizer.registry.levels import avro_problems
from penstock.schematizer.registry.schemas import parse_schema
from penstock.schematizer.registry.subjects import enabled_versions, find_subject, find_version
from penstock.schematizer.storage.history import HistoryPlace, set_field
from penstock.schematizer.storage.models import Schema, Status, Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from penstock.core.tables import TableId
    from penstock.schematizer.registry.schemas import ParsedSchema
    from penstock.schematizer.storage.database import UnitOfWork
    from penstock.schematizer.storage.models import SubjectVersion, Topic

# How penstock.core.compatibility begins a problem of a part of a schema.
_FIELD: Final = re.compile(r"([^\s:]+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What is said of a topic beside its schemas: None where nothing is.

    `base_schema_id` is what the schemas are derived from; None is "from nothing".
    """

    cluster_type: str | None = None
    partitions: int | None = None
    compacted: bool | None = None
    base_schema_id: int | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is said that a topic would have to be told."""
        return self.cluster_type is None and self.partitions is None and self.compacted is None


@dataclass(frozen=True, slots=True)
class TableShape:
    """One shape of a table of `namespace`; `key` is None, and `key_fields` empty, without a primary key.

    What is no table has a name of two parts all the same, and any Avro schema as
    its value.
    """

    namespace: str
    table: TableId
    key: ParsedSchema | None
    key_fields: tuple[str, ...]
    value: ParsedSchema
    contains_pii: bool
    facts: TopicFacts = TopicFacts()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that keeps a shape off a topic.

    `kind`: backward (the new schema cannot read the old one's data), forward (the
    other way round), key, pii, cluster_type, base_schema or status. The first two
    name the topic's `version` and `schema_id`, and the `field` ("" for the whole).
    """

    kind: str
    reason: str
    field: str = ""
    version: int = 0
    schema_id: int | None = None

    def __str__(self) -> str:
        """Return it in one line."""
        if not self.version:
            return self.reason
        who = "new reads old" if self.kind == "backward" else "old reads new"
        field = f"{self.field}: " if self.field else ""
        return f"version {self.version}: {who}: {field}{self.reason}"


def topic_problems(session: Session, topic: Topic, shape: TableShape) -> tuple[Problem, ...]:
    """List what keeps `shape` off `topic`; empty if nothing does. Writes nothing."""
    problems = list(_fact_problems(session, topic, shape))
    subject = find_subject(session, f"{topic.name}-value")
    if subject is None:
        return tuple(problems)
    known = find_version(session, subject, shape.value)
    if known is not None and known.status != Status.ENABLED:
        word = "disabled" if known.status == Status.DISABLED else "read only"
        problems.append(Problem("status", f"its schema is {word} there", schema_id=known.schema_id))
    for version in enabled_versions(session, subject):
        problems += _schema_problems(version, shape.value)
    return tuple(problems)


def same_key(stored: tuple[str, str] | None, key: ParsedSchema | None) -> bool:
    """Tell whether a key writes the bytes of the stored one (fingerprint and text); None is "no key"."""
    if stored is None or key is None:
        return stored is None and key is None
    fingerprint, text = stored
    return fingerprint == key.fingerprint or same_encoding(parse_schema(text).avro, key.avro)


def same_cluster(topic_type: str, facts: TopicFacts) -> bool:
    """Tell whether a topic may be in the cluster that is asked for: where nobody said, it may."""
    return facts.cluster_type is None or topic_type in {"", facts.cluster_type}


def keep_facts(work: UnitOfWork, topic: Topic, facts: TopicFacts) -> None:
    """Keep what is said of a topic, each change in the history."""
    source = topic.source
    place = HistoryPlace(Thing.TOPIC, source.namespace.name, source.table_schema, source.table_name, entity=topic.name)
    for name in ("cluster_type", "partitions", "compacted"):
        value = getattr(facts, name)
        if value is not None:
            set_field(work, place, topic, name, value)


def _fact_problems(session: Session, topic: Topic, shape: TableShape) -> Iterator[Problem]:
    """Compare key, privacy, cluster and base.

    A key's bytes decide its partition, and begin with its schema's id: a topic
    has one key schema for ever, and a key that encodes the same is given that.
    """
    if not same_cluster(topic.cluster_type, shape.facts):
        reason = f"the topic is in a cluster of type {topic.cluster_type}, not {shape.facts.cluster_type}"
        yield Problem("cluster_type", reason)
    if topic.base_schema_id != shape.facts.base_schema_id:
        yield Problem("base_schema", "both are not derived from the same schema")
    if topic.contains_pii != shape.contains_pii:
        yield Problem("pii", "only one of both contains personal data")
        return
    stored = session.get_one(Schema, topic.key_schema_id) if topic.key_schema_id is not None else None
    if not same_key((stored.fingerprint, stored.text) if stored else None, shape.key):
        reason = f"the key was ({', '.join(topic.key_fields)}), and is another or encoded in another way"
        yield Problem("key", reason)


def _schema_problems(version: SubjectVersion, new: ParsedSchema) -> Iterator[Problem]:
    old = parse_schema(version.schema.text).avro
    for kind, reader, writer in (("backward", new.avro, old), ("forward", old, new.avro)):
        for problem in avro_problems(reader, writer):
            found = _FIELD.fullmatch(problem)
            field, reason = (found[1], found[2]) if found else ("", problem)
            yield Problem(kind, reason, field, version.version, version.schema_id)
