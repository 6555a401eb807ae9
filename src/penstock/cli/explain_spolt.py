"""A spolt in words. Loads its user code, so that what is wrong with that is told here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.links.spolts.load import load_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import InputSpec, OutputSpec, SpoltSpec
    from penstock.core.spolts.message import Traits

_ON_ERROR = {
    "stop": "the spolt stops, and says at which message",
    "dead_letter": "the message goes to the dead letters, and the spolt goes on",
}
_ON_DEFAULT = "what the code itself declares dead goes to the dead letters"


def explain_spolt(spec: PipelineSpec, spolt: SpoltSpec) -> Iterator[str]:
    """Say line by line what a spolt does. Raises UsageError for user code that does not load."""
    traits = load_code(spolt).traits
    yield ""
    what = "Arrow batches" if traits.batches else "one message at a time"
    steps = ", then ".join(next(iter(each.model_fields_set)) for each in spolt.transforms)
    made_by = (
        f"{spolt.function} of {spolt.path}, which takes {what}" if not spolt.transforms else f"transforms: {steps}"
    )
    yield f"Spolt {spolt.name}: {made_by}"
    for given in spolt.inputs:
        yield f"  reads    {_input(spec, given)}"
    for output in spolt.outputs:
        told = f"the topic {output.topic}, changes with the transformed tables' schemas and keys"
        yield f"  writes   {told if spolt.transforms else _output(output, traits)}"
    if spolt.options:
        yield f"  options  {', '.join(f'{name}={value!r}' for name, value in spolt.options.items())}"
    yield f"  failure  {_ON_ERROR[spolt.on_error]}{f'; {_ON_DEFAULT}' if spolt.function else ''}"


def _input(spec: PipelineSpec, given: InputSpec) -> str:
    tables = given.tables([source.name for source in spec.sources])
    if tables is not None:
        return f"the tables {tables[1]} of {tables[0]}"
    maker = next((spolt.name for spolt in spec.spolts if given.topic in spolt.topics), None)
    origin = f", which {maker} writes" if maker else ""
    return f"the topic {given.topic}{origin}: {given.format}, with keys of {given.key_format or 'avro or bytes'}"


def _output(output: OutputSpec, traits: Traits) -> str:
    if isinstance(output.schema_file, Path):
        schema = f"with the schema of {output.schema_file}"
    elif output.schema_file == "same":
        schema = "with the schemas of the messages it reads"
    elif traits.schema_of(output.topic) is not None:
        schema = "with the schema that the code declares"
    else:
        schema = "with the columns of the batches that the code returns"
    key = f"the key of {', '.join(output.key)}" if output.key else "the key of the message it is made of"
    return f"the topic {output.topic}, {schema} and {key}"
