"""Commands with more options than a function has parameters: their options are fields of dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give Typer `command` with every parameter that is a dataclass opened into its fields.

    A field is written as a parameter would be: `Annotated[type, typer.Option(...)] = default`.
    """
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if not dataclasses.is_dataclass(hints[name]):
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        group = groups[name] = hints[name]
        fields = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
                annotation=fields[field.name],
            )
            for field in dataclasses.fields(group)
        ]

    def run(**given: Any) -> None:  # noqa: ANN401 - each option has a type of its own
        opened = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**opened, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run
