"""What a pipeline's file may say of a spolt: user code between topics (docs/spolts.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from penstock.config.spec import Name, Spec, Text
from penstock.config.transforms import TransformSpec  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.errors import UsageError
from penstock.core.patterns import TablePatterns

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.changes import MessageFormat

ValueFormat: TypeAlias = Literal["avro", "json", "bytes"]
KeyFormat: TypeAlias = Literal["avro", "json", "text", "bytes"]

_FUNCTION = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
_TOPIC = r"^[A-Za-z0-9._*?-]{1,249}$"
_OUTPUT = r"^[A-Za-z0-9._-]{1,249}$"


def _as_list(given: object) -> object:
    return given if isinstance(given, list) or given is None else [given]


def _as_topic(given: object) -> object:
    return {"topic": given} if isinstance(given, str) else given


def _not_ours(topic: str) -> str:
    if topic.startswith("penstock."):
        text = "is a name of Penstock's own topics; choose one that does not begin with penstock."
        raise ValueError(text)
    return topic


def read_schemas(spolt: SpoltSpec) -> dict[str, str]:
    """The texts of the schemas that a spolt names files for, by topic; UsageError for a file that cannot be read."""
    files = {each.topic: each.schema_file for each in spolt.outputs if isinstance(each.schema_file, Path)}
    try:
        return {topic: file.read_text(encoding="utf-8") for topic, file in files.items()}
    except OSError as error:
        message = f"spolt {spolt.name}: cannot read {error.filename}: {error.strerror}"
        raise UsageError(message, "put the schema where the pipeline's file says it is") from error


class InputSpec(Spec):
    """A topic to read, or tables of a source: `shopdb.shop.orders`, where shopdb is a source, `shopdb.shop.*` too.

    `format` says how the values of a topic are written that no source and no spolt
    of this file makes: Avro in the Confluent wire format, JSON or bytes. `key` is the
    same of its keys; left out, it is text beside JSON, bytes beside bytes, and beside
    Avro whatever each key is, Avro in the wire format or bytes.
    """

    topic: Annotated[str, Field(pattern=_TOPIC)]
    format: ValueFormat = "avro"
    key: KeyFormat | None = None

    @property
    def key_format(self) -> KeyFormat | None:
        """How its keys are written; None where each of them shows whether it is Avro or bytes."""
        if self.key is not None or self.format == "avro":
            return self.key
        return "text" if self.format == "json" else "bytes"

    def written_in(self, message_format: MessageFormat) -> InputSpec:
        """Return it as one of a table whose messages are in that format; the file says nothing of those."""
        return self if message_format == "avro" else self.model_copy(update={"format": "json", "key": "json"})

    def tables(self, sources: Collection[str]) -> tuple[str, TablePatterns] | None:
        """The source, and which of its tables are meant, if the name begins with one of `sources`."""
        source, _, pattern = self.topic.partition(".")
        return (source, TablePatterns((pattern,))) if source in sources else None


class OutputSpec(Spec):
    """A topic to write. It is made with `kafka.partitions` partitions if it is not there.

    `schema` is a file with an Avro schema, or `same`: what is written has the schema
    of the message it comes from. Left out, the user code tells an Arrow schema.
    `key` names fields of the value that make the key; left out, an output has the
    key of the message it comes from.
    """

    topic: Annotated[str, Field(pattern=_OUTPUT), AfterValidator(_not_ours)]
    schema_file: Literal["same"] | Path | None = Field(default=None, alias="schema")
    key: Annotated[tuple[Text, ...], BeforeValidator(_as_list)] = ()


class SpoltSpec(Spec):
    """User code, or transforms that come with Penstock, that make messages of messages.

    `function` is `package.module:name` of a function or a class, which is looked
    for below `path` first (the file's own directory). `options` are given to it as
    keywords. `on_error` says what becomes of a message that the code fails on: the
    spolt stops, or the message goes to its dead letters. A call of the code that takes
    longer than `timeout_seconds` has failed. `on_emptied` says what becomes of transforms
    where a table that they have read is emptied, ends or begins anew.
    """

    name: Name
    function: Annotated[str, Field(pattern=_FUNCTION)] = ""
    transforms: tuple[TransformSpec, ...] = ()
    path: Path = Path()
    options: dict[str, Any] = Field(default_factory=dict)
    inputs: Annotated[
        tuple[Annotated[InputSpec, BeforeValidator(_as_topic)], ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = Field(alias="from")
    outputs: Annotated[
        tuple[Annotated[OutputSpec, BeforeValidator(_as_topic)], ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = Field(alias="to")
    on_error: Literal["stop", "dead_letter"] = "stop"
    on_emptied: Literal["stop", "pass"] = "stop"
    timeout_seconds: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 60.0

    @property
    def salt_names(self) -> tuple[str, ...]:
        """The environment variables that hold the salts of its hashes."""
        return tuple(each.hash.salt_env for each in self.transforms if each.hash is not None)

    @property
    def has_expressions(self) -> bool:
        """Whether Spark has a say in its transforms."""
        return any(each.expression is not None for each in self.transforms)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it writes, dead letters apart."""
        return tuple(output.topic for output in self.outputs)

    @property
    def replay_link(self) -> str:
        """What the link is called that replays its dead letters; no link of the file can have that name."""
        return f"{self.name}.replay"
