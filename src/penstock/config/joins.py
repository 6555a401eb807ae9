"""What a join's file may say (docs/joins.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.spec import Name, Positive, Spec, Text
from penstock.core.topic_policy import TopicRule
from penstock.core.transforms.conditions import parse_condition

_INPUTS_MAX = 30
_STEP_NAME_MAX = 41
_HOUR_MS = 3_600_000
_PARALLELISM_MAX = 64
"""Keys are in so many buckets (core/joins/blocks.py)."""


def _as_list(given: object) -> object:
    return given if isinstance(given, list | tuple) or given is None else [given]


def _some(inputs: tuple[JoinInputSpec, ...]) -> tuple[JoinInputSpec, ...]:
    if not 2 <= len(inputs) <= _INPUTS_MAX:  # noqa: PLR2004 - a join is of two at least
        text = f"should have 2 to {_INPUTS_MAX} streams, and has {len(inputs)}"
        raise ValueError(text)
    for key, said in (("type: left", inputs[0].type == "left"), ("left_keys", inputs[0].left_keys)):
        if said:
            text = f"has {key} in its first stream, which has nothing on its left"
            raise ValueError(text)
    return inputs


def _check_condition(condition: str) -> str:
    parse_condition(condition)
    return condition


TextList = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]


class AliasSpec(Spec):
    """Another name for a field in the output."""

    old: Text = Field(alias="from")
    new: Text = Field(alias="to")


class JoinInputSpec(Spec):
    """A stream of changes of a table: by its topic, or by the id of a schema of its values.

    `join_keys` equal `left_keys`, fields of what stands above by their names in the
    output; left out, those are the join keys of the first stream. With `type: left`
    rows of what stands above go on without a match. Rows for which `where` does not
    hold are as if they were not there.
    """

    schema_id: Positive | None = None
    topic: Text | None = None
    type: Literal["inner", "left"] = "inner"
    join_keys: Annotated[TextList, Field(min_length=1)]
    left_keys: TextList = ()
    where: Annotated[str, AfterValidator(_check_condition)] = Field(default="", validate_default=False)
    exclude_fields: TextList = ()
    aliases: tuple[AliasSpec, ...] = ()

    @model_validator(mode="after")
    def _require_names_that_fit(self) -> JoinInputSpec:
        if (self.schema_id is None) == (self.topic is None):
            text = "give schema_id or topic, and not both"
            raise ValueError(text)
        if self.left_keys and len(self.left_keys) != len(self.join_keys):
            text = f"has {len(self.left_keys)} left_keys and {len(self.join_keys)} join_keys: give as many"
            raise ValueError(text)
        return self

    @property
    def is_step(self) -> bool:
        """Whether another join of the same file makes it."""
        return False

    def column(self, name: str) -> str:
        """What a field of the output is called in this stream."""
        return {each.new: each.old for each in self.aliases}.get(name, name)

    def field(self, column: str) -> str:
        """What a column of this stream is called in the output."""
        return {each.old: each.new for each in self.aliases}.get(column, column)

    @property
    def named(self) -> str:
        """What the file calls it."""
        return f"schema_id {self.schema_id}" if self.topic is None else f"topic {self.topic}"


class StepInputSpec(JoinInputSpec):
    """What the step before this one makes. `shown_keys` are its fields that one stream excludes, and another shows."""

    shown_keys: TextList = ()

    @property
    def is_step(self) -> bool:
        """Whether another join of the same file makes it."""
        return True


class JoinOutputSpec(Spec):
    """The table that a join makes: `namespace.source`.

    Its topic is made with `partitions`, and keeps messages for `retention_hours`; what is left out is
    as for topics of tables.
    """

    namespace: Name
    source: Name
    doc: Text = ""
    pkey: Annotated[TextList, Field(min_length=1)]
    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    retention_hours: Annotated[int, Field(strict=True, ge=1, le=876_000)] | Literal["unlimited"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_capital_doc(cls, given: object) -> object:
        if isinstance(given, dict) and "Doc" in given and "doc" not in given:
            return {("doc" if key == "Doc" else key): value for key, value in given.items()}
        return given


class StepOutputSpec(JoinOutputSpec):
    """What a step makes for the next one: the keys of its inputs are its key, and its topic is kept whole."""

    pkey: TextList = ()
    retention_hours: Annotated[int, Field(strict=True, ge=1, le=876_000)] | Literal["unlimited"] | None = "unlimited"


class JoinSpec(Spec):
    """One file: streams that are joined by their join keys, and the table that comes of it.

    As many tasks as its `parallelism` join at once, where Spark has so many cores; left
    out, as many as the machine has processors, two to four. A state keeps what it was begun with.
    """

    inputs: Annotated[tuple[JoinInputSpec, ...], AfterValidator(_some)] = Field(alias="join")
    output: JoinOutputSpec
    parallelism: Annotated[int, Field(strict=True, ge=1, le=_PARALLELISM_MAX)] | None = None

    @model_validator(mode="after")
    def _leave_room_for_steps(self) -> JoinSpec:
        if any(each.left_keys for each in self.inputs) and len(self.output.source) > _STEP_NAME_MAX:
            text = f"output.source should have at most {_STEP_NAME_MAX} characters, for left_keys make steps with names"
            raise ValueError(text)
        return self

    @property
    def name(self) -> str:
        """What its link is called, and what a link to a sink reads `from`."""
        return self.output.source

    @property
    def step_before(self) -> str | None:
        """The join of the same file that makes what this one reads first; None for the first of a file."""
        first = self.inputs[0]
        return first.topic.partition(".")[0] if first.is_step and first.topic else None

    @property
    def topic_rule(self) -> TopicRule | None:
        """How the topics of its output are to be kept; None where the file says nothing of it."""
        hours, partitions = self.output.retention_hours, self.output.partitions
        if hours is None and partitions is None:
            return None
        retention_ms = None if hours is None else -1 if hours == "unlimited" else hours * _HOUR_MS
        # With another key, say, it goes on in `.v2`; and its source has no other table.
        topics = f"{self.name}.{self.output.namespace}.{self.output.source}*"
        return TopicRule(topics, partitions=partitions, retention_ms=retention_ms)
