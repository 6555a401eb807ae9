"""Tries a spolt without Kafka: messages in, messages out, through the code that workers run.

    harness = Harness.of_file("pipeline.yaml", "big_orders", tables=[CREATE_TABLE])
    result = harness.run([create("shop.orders", {"id": 1, "total": Decimal("250.00")})])
    assert result.values("big_orders") == [{"id": 1, "total": Decimal("250.00")}]

What goes in is encoded as a capture, or somebody else, would write it, decoded as
a worker decodes it, and what comes out is encoded with its schema and decoded
again. Only the registry is one in memory, which refuses no schema.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.config.load import load
from penstock.config.spolts import SpoltSpec
from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.avro.wire import FRAME_BYTES, frame, split
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import PenstockError
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.core.spolts.arrow_schemas import avro_of_arrow
from penstock.core.spolts.avro_records import avro_records
from penstock.core.spolts.json_values import parse_json
from penstock.core.spolts.key_schemas import require_same_key
from penstock.core.spolts.raw import RawMessage
from penstock.links.spolts.load import load_code, prepare_code
from penstock.links.spolts.run import SpoltRunner
from penstock.links.spolts.spec import SpoltJob, spolt_job
from penstock.schematizer.statements.create_table import parse_create_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from penstock.config.spolts import InputSpec
    from penstock.core.changes import MessageFormat
    from penstock.core.spolts.row_images import Record
    from penstock.core.tables import TableSchema

_TIMESTAMP_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Given:
    """A message to put in: a change of a table, or, with an `op` of "", a value of a topic.

    `lacks` are the columns of which the source's log has no values: before the change, and after it.
    """

    op: str
    name: str
    before: Record | None = None
    after: Any = None
    key: bytes | str | None = None
    partition: int = 0
    timestamp_ms: int = _TIMESTAMP_MS
    lacks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def create(table: str, row: Record, *, lacks: Iterable[str] = ()) -> Given:
    """A row of `table` (schema.name) that was created; columns that the log `lacks` have their defaults."""
    return Given(Op.CREATE, table, None, row, lacks=((), tuple(lacks)))


def update(
    table: str, before: Record, after: Record, *, before_lacks: Iterable[str] = (), after_lacks: Iterable[str] = ()
) -> Given:
    """A row that was updated. What the log lacks is left out of `before` and `after`, and named.

    So does PostgreSQL: without REPLICA IDENTITY FULL `before` lacks all but the key,
    and `after` large values that the update did not touch.
    """
    return Given(Op.UPDATE, table, before, after, lacks=(tuple(before_lacks), tuple(after_lacks)))


def delete(table: str, row: Record, *, lacks: Iterable[str] = ()) -> Given:
    """A row that was deleted, as it last was, without the columns that the log `lacks`."""
    return Given(Op.DELETE, table, row, None, lacks=(tuple(lacks), ()))


def read(table: str, row: Record) -> Given:
    """A row that a copy read."""
    return Given(Op.READ, table, None, row)


def send(topic: str, value: object, key: bytes | str | None = None, *, partition: int = 0) -> Given:
    """A message of a topic, whose value is written as the file says: a record as Avro or JSON, bytes as they are.

    Bytes are taken as they are for every format, so that broken messages can be sent;
    None is a tombstone. The Avro schema of a record is the one that Arrow infers.
    """
    return Given("", topic, None, value, key, partition)


@dataclass(frozen=True, slots=True)
class Published:
    """A message that came out, decoded."""

    topic: str
    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class PutAside:
    """A message that went to the dead letters: its place in what was put in, from 0, and why."""

    index: int
    error: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came out, in its order."""

    published: Sequence[Published]
    letters: Sequence[PutAside]

    def values(self, topic: str) -> list[Any]:
        """The values that came out for `topic`."""
        return [each.value for each in self.published if each.topic == topic]


class LocalSchemas:
    """A registry in memory (ports/subjects.Subjects): each text has one id, under whatever subject."""

    def __init__(self) -> None:
        """Know nothing."""
        self._texts: list[str] = []
        self._subjects: dict[str, list[str]] = defaultdict(list)

    def register_key(self, subject: str, schema: str) -> int:
        """Return the id of a schema; PenstockError where the table had another key there."""
        require_same_key(subject, self._subjects[subject], schema)
        return self.register_subject(subject, schema)

    def register_subject(self, subject: str, schema: str) -> int:
        """Return the id of a schema."""
        if schema not in self._subjects[subject]:
            self._subjects[subject].append(schema)
        if schema not in self._texts:
            self._texts.append(schema)
        return self._texts.index(schema)

    def value_schema(self, schema_id: int) -> str:
        """Return the schema with this id; PenstockError if there is none."""
        if schema_id < len(self._texts):
            return self._texts[schema_id]
        message = f"there is no schema {schema_id}"
        raise PenstockError(message, "encode with a schema that was registered")

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Harness:
    """A spolt with the tables that it reads. Make one with `of_file` or `of_function`.

    `flat` are those of its `sources` that write JSON.
    """

    job: SpoltJob
    function: Callable[..., object] | None = None
    sources: Sequence[str] = ()
    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    schemas: LocalSchemas = field(default_factory=LocalSchemas)
    flat: Collection[str] = ()

    @classmethod
    def of_file(cls, file: str | Path, name: str, tables: Iterable[str] = ()) -> Harness:
        """The spolt called `name` of a pipeline's file; `tables` are CREATE TABLE statements, with the schema's name.

        Raises ConfigError and UsageError as `penstock run` does.
        """
        spec = load(Path(file))
        sources = [source.name for source in spec.sources]
        flat = [source.name for source in spec.sources if source.format == "json"]
        return cls(spolt_job(spec, name), None, sources, _tables(tables), flat=flat)

    @classmethod
    def of_function(
        cls,
        function: Callable[..., object],
        to: object = "out",
        given: object = "in",
        *,
        tables: Iterable[str] = (),
        **more: object,
    ) -> Harness:
        """A function or class by itself; `to` and `given` are what the file would say in `to` and `from`.

        With `format: json` in `given`, changes of tables are those of a source that has it.
        `more` are further keys of the file: options, on_error.
        """
        keys = {"name": "tried", "function": "tried:function", "from": given, "to": to, **more}
        return cls(SpoltJob(SpoltSpec.model_validate(keys)), function, (), _tables(tables))

    def run(self, messages: Iterable[Given]) -> Result:
        """Process messages, in order; those that follow each other in one topic partition at once, as workers do.

        Raises SpoltError where the spolt would stop.
        """
        spolt = self.job.spolt
        code = load_code(spolt) if self.function is None else prepare_code(spolt, self.function)
        published: list[Published] = []
        letters: list[PutAside] = []
        messages = list(messages)
        # What rows may lack is said by the table's schema, and so of all of its messages.
        partial = {given.name for given in messages if any(given.lacks)}
        raws = [
            raw
            for offset, given in enumerate(messages)
            for raw in self._raws(given, offset, is_partial=given.name in partial)
        ]
        for _, group in groupby(raws, key=lambda each: (each[0].topic, each[0].partition)):
            together = list(group)
            runner = SpoltRunner(self.job, code, together[0][1], self.schemas)
            for done in runner.run([raw for raw, _ in together]):
                published += [Published(e.topic, self._shown(e.key), self._shown(e.value)) for e in done.encoded]
                letters += [PutAside(letter.offset, reason) for letter, reason in done.failed]
        return Result(published, letters)

    def _raws(self, given: Given, offset: int, *, is_partial: bool = False) -> Iterator[tuple[RawMessage, InputSpec]]:
        """The message with its input; a delete in JSON is two, which share the place in what was put in."""
        topic, entry = self._entry(given)
        if given.op:
            pairs = self._change(given, replace(self._table(given.name), partial_rows=is_partial), entry)
        else:
            pairs = [(_bytes(given.key), self._value(given, entry))]
        for key, value in pairs:
            yield RawMessage(topic, given.partition, offset, given.timestamp_ms, key, value), entry

    def _entry(self, given: Given) -> tuple[str, InputSpec]:
        """The topic of a message, and the input that reads it."""
        inputs = self.job.spolt.inputs
        for entry in inputs:
            found = entry.tables(self.sources)
            if found is not None and given.op and found[1].matches(self._table(given.name).table):
                return f"{found[0]}.{given.name}", entry.written_in("json" if found[0] in self.flat else "avro")
            if found is None and given.name == entry.topic:
                return given.name, entry
        if self.function is not None:
            is_flat = given.op and inputs[0].format == "json"
            return given.name, inputs[0].written_in("json" if is_flat else "avro")
        text = f"the spolt does not read {given.name}; it reads: {', '.join(entry.topic for entry in inputs)}"
        raise ValueError(text)

    def _table(self, name: str) -> TableSchema:
        if name not in self.tables:
            text = f"what is {name}? Give its CREATE TABLE in `tables`; there is: {', '.join(self.tables) or 'none'}"
            raise ValueError(text)
        return self.tables[name]

    def _change(self, given: Given, schema: TableSchema, entry: InputSpec) -> list[tuple[bytes | None, bytes | None]]:
        key_text = key_schema(schema)
        key_id = None if key_text is None else self.schemas.register_subject("key", key_text)
        value_id = self.schemas.register_subject("value", value_schema(schema))
        written: MessageFormat = "json" if entry.format == "json" else "avro"
        table = EncodableTable("harness", "mysql", schema, key_id, value_id, format=written)
        batch = RowBatch(
            schema=schema,
            op=Op(given.op),
            before=_row(schema, given.before, given.lacks[0]),
            after=_row(schema, given.after, given.lacks[1]),
            file="harness.000001",
            offsets=np.zeros(1, np.int64),
            rows=np.zeros(1, np.int32),
            timestamps_ms=np.full(1, given.timestamp_ms, np.int64),
            gtids=pa.array([""], pa.string()),
            server_id=1,
            before_lacks=given.lacks[0],
            after_lacks=given.lacks[1],
        )
        encoded = encode_changes(table, batch, given.timestamp_ms)
        made = changes_as_messages(table, given.name, batch.op, encoded, [0])
        return list(zip(made.keys.to_pylist(), made.values.to_pylist(), strict=True))

    def _value(self, given: Given, entry: InputSpec) -> bytes | None:
        value = given.after
        if value is None or isinstance(value, bytes):
            return value
        if entry.format == "json":
            return json.dumps(value).encode()
        if entry.format == "bytes":
            return _bytes(value)
        text = avro_of_arrow(given.name, pa.Table.from_pylist([value]).schema)
        return frame(self.schemas.register_subject("value", text)) + avro_records(text).encode(value)

    def _shown(self, content: bytes | None) -> object:
        """Decode what came out: Avro, JSON, or bytes as they are."""
        if content is None:
            return None
        if content[:1] == b"\0" and len(content) >= FRAME_BYTES:
            schema_id, rest = split(content)
            return avro_records(self.schemas.value_schema(schema_id)).decode(rest)
        try:
            return parse_json(content)
        except ValueError:
            return content


def _tables(statements: Iterable[str]) -> dict[str, TableSchema]:
    schemas = [parse_create_table(statement) for statement in statements]
    return {str(schema.table): schema for schema in schemas}


def _row(schema: TableSchema, row: Record | None, lacks: Sequence[str]) -> pa.RecordBatch | None:
    if row is None:
        return None
    unknown = sorted({*row, *lacks} - {column.name for column in schema.columns})
    if unknown:
        text = f"{schema.table} has no column {unknown[0]}"
        raise ValueError(text)
    told = sorted({*row, *schema.key} & set(lacks))
    if told:
        text = f"a row of {schema.table} cannot lack {told[0]}, which it has"
        raise ValueError(text)
    return pa.RecordBatch.from_pylist([dict(row)], schema=arrow_schema(schema))


def _bytes(given: object) -> bytes | None:
    return given.encode() if isinstance(given, str) else given if isinstance(given, bytes) else None
