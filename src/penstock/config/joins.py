"""What a join's file may say (docs/joins.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.spec import Name, Positive, Spec, Text

_INPUTS_MAX = 30


def _as_list(given: object) -> object:
    return given if isinstance(given, list) or given is None else [given]


def _some(inputs: tuple[JoinInputSpec, ...]) -> tuple[JoinInputSpec, ...]:
    if not 2 <= len(inputs) <= _INPUTS_MAX:  # noqa: PLR2004 - a join is of two at least
        text = f"should have 2 to {_INPUTS_MAX} streams, and has {len(inputs)}"
        raise ValueError(text)
    return inputs


TextList = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]


class AliasSpec(Spec):
    """Another name for a field in the output."""

    old: Text = Field(alias="from")
    new: Text = Field(alias="to")


class JoinInputSpec(Spec):
    """A stream of changes of a table: by its topic, or by the id of a schema of its values."""

    schema_id: Positive | None = None
    topic: Text | None = None
    join_keys: Annotated[TextList, Field(min_length=1)]
    exclude_fields: TextList = ()
    aliases: tuple[AliasSpec, ...] = ()

    @model_validator(mode="after")
    def _require_one_name(self) -> JoinInputSpec:
        if (self.schema_id is None) == (self.topic is None):
            text = "give schema_id or topic, and not both"
            raise ValueError(text)
        return self

    @property
    def named(self) -> str:
        """What the file calls it."""
        return f"schema_id {self.schema_id}" if self.topic is None else f"topic {self.topic}"


class JoinOutputSpec(Spec):
    """The table that a join makes: `namespace.source`."""

    namespace: Name
    source: Name
    doc: Text = ""
    pkey: Annotated[TextList, Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _take_capital_doc(cls, given: object) -> object:
        if isinstance(given, dict) and "Doc" in given and "doc" not in given:
            return {("doc" if key == "Doc" else key): value for key, value in given.items()}
        return given


class JoinSpec(Spec):
    """One file: streams that are joined by their join keys, and the table that comes of it."""

    inputs: Annotated[tuple[JoinInputSpec, ...], AfterValidator(_some)] = Field(alias="join")
    output: JoinOutputSpec

    @property
    def name(self) -> str:
        """What its link is called, and what a link to a sink reads `from`."""
        return self.output.source
