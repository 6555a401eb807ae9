"""Finds the user code of a spolt and makes it ready to be called."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.core.errors import UsageError
from penstock.core.spolts.message import Traits, traits_of
from penstock.links.spolts.spec import LoadedCode
from penstock.links.spolts.transform_code import Transforms, without_spark
from penstock.links.transforms import open_transforms

if TYPE_CHECKING:
    from types import ModuleType

    from penstock.config.spolts import SpoltSpec
    from penstock.links.spolts.spec import UserCode


def load_code(spolt: SpoltSpec) -> LoadedCode:
    """Import what the spolt names, and make its object if that is a class; or make its transforms.

    Runs code of the user. Raises UsageError, with what the code raised, for code
    that is not there, does not import, cannot be called or takes no such options,
    and for code that tells no schema for an output that needs one.
    """
    if spolt.transforms:
        return LoadedCode(Transforms(open_transforms(spolt.transforms), without_spark), Traits(batches=True))
    return prepare_code(spolt, getattr(_import(spolt), spolt.function.partition(":")[2], None))


def prepare_code(spolt: SpoltSpec, found: object) -> LoadedCode:
    """Make what a module has under the spolt's name ready to be called. UsageError as in `load_code`."""
    if not callable(found):
        what = "is not there" if found is None else f"is a {type(found).__name__}, which cannot be called"
        message = f"spolt {spolt.name}: {spolt.function} {what}"
        raise UsageError(message, "name a function or a class of that module")
    traits = traits_of(found)
    _require_schemas(spolt, traits)
    return LoadedCode(_ready(spolt, found), traits)


def _import(spolt: SpoltSpec) -> ModuleType:
    name, path = spolt.function.partition(":")[0], str(spolt.path)
    if path not in sys.path:
        sys.path.insert(0, path)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        message = f"spolt {spolt.name}: {name} does not import: {type(error).__name__}: {error}"
        hint = f"it is looked for below {path} first; try: cd {path} && python -c 'import {name}'"
        raise UsageError(message, hint) from error
    _require_below(spolt, module, name)
    return module


def _require_below(spolt: SpoltSpec, module: ModuleType, name: str) -> None:
    """Another spolt may have brought a module of the same name from elsewhere; Python keeps one of each name."""
    file = Path(module.__file__ or "")
    own = spolt.path / Path(*name.split("."))
    wanted = next((each for each in (own.with_suffix(".py"), own / "__init__.py") if each.exists()), None)
    if wanted is not None and file.resolve() != wanted.resolve():
        message = f"spolt {spolt.name}: {name} is at {wanted}, but {file} has that name in this process"
        raise UsageError(message, "give one of the two modules another name")


def _ready(spolt: SpoltSpec, found: object) -> UserCode:
    """Make the object of a class with the options, or give them to a function with each call."""
    if not isinstance(found, type):
        return cast("UserCode", partial(cast("UserCode", found), **spolt.options) if spolt.options else found)
    try:
        made = found(**spolt.options)
    except (Exception, SystemExit) as error:
        message = f"spolt {spolt.name}: {spolt.function} cannot be made: {type(error).__name__}: {error}"
        raise UsageError(message, "the options of the spolt are the arguments of the class") from error
    if not callable(made):
        message = f"spolt {spolt.name}: objects of {spolt.function} cannot be called"
        raise UsageError(message, "give the class a method __call__(self, message)")
    return cast("UserCode", made)


def _require_schemas(spolt: SpoltSpec, traits: Traits) -> None:
    """The batches of a batch function say their schema themselves; single messages do not."""
    for output in spolt.outputs:
        is_told = output.schema_file is not None or traits.schema_of(output.topic) is not None
        if not is_told and not traits.batches:
            message = f"spolt {spolt.name}: nothing says which schema {output.topic} has"
            hint = "give `schema` in `to` (a file, or same), or decorate the function with @spolt(output=...)"
            raise UsageError(message, hint)
        if output.schema_file == "same" and traits.batches:
            message = f"spolt {spolt.name}: a batch has no schema of its messages to keep for {output.topic}"
            raise UsageError(
                message, "leave `schema: same` out: the columns of the batch that it returns are its schema"
            )
        if output.schema_file == "same" and output.key:
            message = f"spolt {spolt.name}: with `schema: same`, {output.topic} has the keys of its messages"
            raise UsageError(message, "leave `key` out")
