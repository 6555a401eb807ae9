"""Reading a pipeline's file: every mistake at once, each with its line."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pydantic import ValidationError

from penstock.config.crosschecks import find_conflicts
from penstock.config.join_steps import steps_of
from penstock.config.joins import JoinSpec
from penstock.config.mysql_source import MysqlSourceSpec
from penstock.config.packages import require_packages
from penstock.config.postgres_source import PostgresSourceSpec
from penstock.config.sinks import SinkSpec
from penstock.config.spec import Spec, known_keys, specs_in
from penstock.config.specs import PipelineSpec
from penstock.config.spolt_crosschecks import find_spolt_conflicts
from penstock.config.yaml_lines import Document, Location, Mistake, parse_yaml
from penstock.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

    from penstock.config.spolts import SpoltSpec

_WORDS = {
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "float_type": "should be a number",
    "path_type": "should be a path",
    "model_type": "should be a mapping of keys to values",
    "dict_type": "should be a mapping of keys to values",
    "tuple_type": "should be a list",
    "too_short": "should have at least one entry",
    "string_too_short": "should not be empty",
}
_PATTERNS = {
    "function": "should be package.module:name, for example shop.spolts:big_orders",
    "publication": "should be small letters, digits and _, at most 63, and begin with no digit",
    "slot": "should be small letters, digits and _, at most 63",
    "topic": "should be a topic: letters, digits, '.', _ and -, at most 249",
}
_NAME_RULE = "should be a name: a letter, then letters, digits{others}, at most 48"


def load(path: Path) -> PipelineSpec:
    """Read the pipeline in the file at `path`, its paths made absolute from the file's directory.

    Raises ConfigError with all the mistakes, in the order of their lines, and
    UsageError when the file cannot be read, or asks for a package that is not installed.
    """
    spec = parse(_read(path), str(path), path.resolve().parent)
    require_packages(spec)
    return spec


def parse(text: str, file: str, directory: Path) -> PipelineSpec:
    """Read the pipeline in `text`; `file` names it in errors, paths are relative to `directory`."""
    document = parse_yaml(text)
    if document.value is None and not document.mistakes:
        raise ConfigError(file, ["line 1: the file is empty; it needs at least pipeline and sources"])
    if not isinstance(document.value, dict):
        broken = document.mistakes or (Mistake(1, (), "should be a mapping of keys to values"),)
        raise ConfigError(file, [str(mistake) for mistake in broken])
    mistakes = list(document.mistakes)
    joins, faults = _read_joins(document.value.get("joins"), directory)
    given = document.value if joins is None else {**document.value, "joins": joins}
    steps = given if joins is None else {**given, "joins": [step for join in joins for step in _steps(join)]}
    conflicts = [*faults, *find_conflicts(given), *find_spolt_conflicts(given, directory)]
    mistakes += [Mistake(document.line(where), where, what) for where, what in conflicts]
    try:
        spec = PipelineSpec.model_validate(steps)
    except ValidationError as error:
        mistakes += [_explain(document, details) for details in _new_errors(error, document)]
    if mistakes:
        ordered = sorted(mistakes, key=lambda mistake: mistake.line)
        raise ConfigError(file, list(dict.fromkeys(str(mistake) for mistake in ordered)))
    return _with_absolute_paths(spec, directory)


def load_join(path: Path) -> JoinSpec:
    """Read the join in the file at `path`; raises as `load`."""
    document = parse_yaml(_read(path))
    mistakes = list(document.mistakes)
    try:
        spec = JoinSpec.model_validate(document.value)
    except ValidationError as error:
        mistakes += [_explain(document, details, JoinSpec) for details in _new_errors(error, document)]
    if mistakes:
        raise ConfigError(str(path), [str(mistake) for mistake in sorted(mistakes, key=lambda each: each.line)])
    return spec


def _read_joins(files: object, directory: Path) -> tuple[list[object] | None, list[tuple[Location, str]]]:
    """The joins in the files that a pipeline names, and what is wrong with those; None where it names none."""
    if not isinstance(files, list):
        return None, []
    found: list[object] = []
    faults: list[tuple[Location, str]] = []
    for index, file in enumerate(files):
        try:
            found.append(load_join(directory / file) if isinstance(file, str) else file)
        except ConfigError as error:
            faults += [(("joins", index), f"{file}: {mistake}") for mistake in error.mistakes]
        except UsageError as error:
            faults.append((("joins", index), error.message))
    return found, faults


def _steps(join: object) -> Sequence[object]:
    return steps_of(join) if isinstance(join, JoinSpec) else [join]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message, hint = f"there is no file {path}", "give the path of a pipeline's YAML file"
        raise UsageError(message, hint) from error
    except UnicodeDecodeError as error:
        message, hint = f"{path} is not UTF-8 text (byte {error.start})", "save the file as UTF-8"
        raise UsageError(message, hint) from error
    except OSError as error:
        message, hint = f"cannot read {path}: {error.strerror}", "give the path of a pipeline's YAML file"
        raise UsageError(message, hint) from error


def _with_absolute_paths(spec: PipelineSpec, directory: Path) -> PipelineSpec:
    sources = tuple(source.located(directory) for source in spec.sources)
    tracker = spec.tracker and spec.tracker.located(directory)
    sinks = tuple(sink.located(directory) for sink in spec.sinks)
    security = spec.kafka.security
    if security.ca_file is not None:
        security = security.model_copy(update={"ca_file": (directory / security.ca_file).resolve()})
    return spec.model_copy(
        update={
            "home": (directory / spec.home).resolve(),
            "kafka": spec.kafka.model_copy(update={"security": security}),
            "tracker": tracker,
            "sources": sources,
            "sinks": sinks,
            "spolts": tuple(_absolute_spolt(spolt, directory) for spolt in spec.spolts),
            "web": spec.web and spec.web.located(directory),
        }
    )


def _absolute_spolt(spolt: SpoltSpec, directory: Path) -> SpoltSpec:
    outputs = tuple(
        output.model_copy(update={"schema_file": (directory / output.schema_file).resolve()})
        if isinstance(output.schema_file, Path)
        else output
        for output in spolt.outputs
    )
    transforms = tuple(each.with_paths_below(directory) for each in spolt.transforms)
    path = (directory / spolt.path).resolve()
    return spolt.model_copy(update={"path": path, "outputs": outputs, "transforms": transforms})


def _new_errors(error: ValidationError, document: Document) -> Iterator[ErrorDetails]:
    """Leave out what is told already: a list whose entries have mistakes is also said to be too short."""
    told = {mistake.location for mistake in document.mistakes}
    for details in error.errors(include_url=False):
        if details["loc"] not in told and not (details["type"] == "too_short" and details["input"]):
            yield details


def _explain(document: Document, details: ErrorDetails, root: type[Spec] = PipelineSpec) -> Mistake:
    found: Location = details["loc"]
    # Between the place of a sink, or a source, and its key stands its kind, which the file has elsewhere.
    location = tuple(part for before, part in zip((None, *found), found, strict=False) if not _is_kind(before, part))
    where, text = location, _WORDS.get(details["type"]) or details["msg"].removeprefix("Input ")
    match details["type"]:
        case "missing":
            where, text = location[:-1], f"missing key {location[-1]}"
        case "union_tag_not_found":
            text = "missing key kind"
        case "union_tag_invalid":
            where, text = (*location, "kind"), f"should be {details['ctx']['expected_tags'].replace(', ', ' or ')}"
        case "extra_forbidden":
            text = f"unknown key{_suggestion(found, root)}"
        case "value_error":
            text = str(details["ctx"]["error"])
        case "string_pattern_mismatch":
            text = _PATTERNS.get(str(location[-1])) or _name_rule(location)
        case "string_type" if isinstance(details["input"], int | float):
            text += ", in quotes"
    return Mistake(document.line(where), where, text)


def _name_rule(location: Location) -> str:
    if str(location[-1]).endswith("_env"):
        return "should be the name of an environment variable, not its value"
    return _NAME_RULE.format(others=" and _" if location[0] == "sources" else ", _ and -")


def _suggestion(location: Location, root: type[Spec]) -> str:
    keys = known_keys(_spec_at(location[:-1], root))
    close = get_close_matches(str(location[-1]), keys, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else f" (known here: {', '.join(keys)})"


def _spec_at(location: Location, root: type[Spec]) -> type[Spec]:
    """The spec of the mapping at `location` of a `root`, found by following the fields' annotations."""
    found: list[type[Spec]] = [root]
    for before, part in zip((None, *location), location, strict=False):
        if _is_kind(before, part):
            found = [spec for spec in found if part in get_args(spec.model_fields["kind"].annotation)]
        elif isinstance(part, str):
            fields = found[0].model_fields.items()
            field = next(field for name, field in fields if part in {name, field.alias})
            found = list(specs_in(field.annotation)) or found
    return found[0]


def _is_kind(before: str | int | None, part: str | int) -> bool:
    """Whether a part of a location is the kind that a sink or a source was read as."""
    return isinstance(before, int) and isinstance(part, str) and part in _kinds()


def _kinds() -> set[object]:
    specs: tuple[type[Spec], ...] = (*specs_in(SinkSpec), MysqlSourceSpec, PostgresSourceSpec)
    return {kind for spec in specs for kind in get_args(spec.model_fields["kind"].annotation)}
