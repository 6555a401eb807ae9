"""What a spolt's tasks need to know; frozen, so that it travels to executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.config.spolts import read_schemas
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import SpoltSpec
    from penstock.core.spolts.message import Traits


class UserCode(Protocol):
    """A user's function, or an object of a user's class, ready to be called with a Message or a batch."""

    def __call__(self, given: object, /) -> object:
        """Process one message, or one batch."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """A spolt's user code in this process, and what it says of itself."""

    function: UserCode
    traits: Traits


@dataclass(frozen=True, slots=True)
class SpoltJob:
    """A spolt of a pipeline's file with the texts of the schemas that it names, by topic."""

    spolt: SpoltSpec
    schemas: Mapping[str, str] = field(default_factory=dict)


def spolt_job(spec: PipelineSpec, name: str) -> SpoltJob:
    """The spolt called `name` with the schemas of its files; UsageError for one that there is not, or no such file."""
    if name not in {spolt.name for spolt in spec.spolts}:
        message = f'there is no spolt "{name}" in this pipeline'
        names = ", ".join(spolt.name for spolt in spec.spolts) or "none"
        raise UsageError(message, f"its spolts are: {names}")
    return SpoltJob(spec.spolt(name), read_schemas(spec.spolt(name)))
