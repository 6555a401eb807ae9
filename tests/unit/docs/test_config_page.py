"""docs/config.md lists the keys that the code reads, with their types and defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator

from penstock.config.spec import Spec, known_keys, specs_in
from penstock.config.specs import FRESHNESS_MS, PipelineSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

_PAGE: Final = (Path(__file__).parents[3] / "docs" / "config.md").read_text(encoding="utf-8")
_LINK: Final = re.compile(r"\(#([\w-]+)\)")
_ROW: Final = re.compile(r"^\| `([\w.]+)` \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_PLAIN: Final[dict[object, str]] = {
    str: "text",
    bool: "true or false",
    Path: "path",
    int: "whole number",
    float: "number",
}


def _sections() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """By the anchor of each section: key, then type, default and meaning."""
    found = {}
    for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", _PAGE, re.MULTILINE):
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        found[anchor] = {key: cells for key, *cells in _ROW.findall(text)}
    return found


_SECTIONS: Final = _sections()


def _fields(spec: type[Spec]) -> Mapping[str, FieldInfo]:
    return dict(zip(known_keys(spec), spec.model_fields.values(), strict=True))


def _places() -> Mapping[str, type[Spec]]:
    """The spec of which each section tells, found by following the links of types from the first section on."""
    places: dict[str, type[Spec]] = {}
    ahead: list[tuple[str, type[Spec]]] = [("the-file", PipelineSpec)]
    for anchor, spec in ahead:
        if anchor in places:
            assert places[anchor] is spec, f"#{anchor} stands for two mappings"
            continue
        places[anchor] = spec
        for key, field in _fields(spec).items():
            type_, *_ = _SECTIONS.get(anchor, {}).get(key, ("",))
            ahead += zip(_LINK.findall(type_), specs_in(field.annotation), strict=False)
    return places


_PLACES: Final = _places()


def test_every_section_of_the_page_is_a_mapping_of_the_file() -> None:
    assert set(_PLACES) == set(_SECTIONS)


@pytest.mark.parametrize("anchor", _PLACES)
def test_a_section_has_the_keys_that_the_code_knows(anchor: str) -> None:
    assert list(_SECTIONS.get(anchor, ())) == list(known_keys(_PLACES[anchor]))


@pytest.mark.parametrize("anchor", _PLACES)
def test_a_section_has_the_defaults_of_the_code(anchor: str) -> None:
    expected = {key: _default(field) for key, field in _fields(_PLACES[anchor]).items()}

    listed = {key: default for key, (_, default, _) in _SECTIONS[anchor].items()}
    # Where the code has no value, the page says in words what then is.
    in_words = {key: value for key, value in listed.items() if expected.get(key) is None}
    assert listed == {**expected, **in_words}
    assert [key for key, value in in_words.items() if value == "required" or value.startswith("`")] == []


@pytest.mark.parametrize("anchor", _PLACES)
def test_a_section_has_the_types_of_the_code(anchor: str) -> None:
    for key, field in _fields(_PLACES[anchor]).items():
        type_, _, _ = _SECTIONS[anchor][key]
        specs = list(specs_in(field.annotation))
        expected = None if specs else _type(key, field.annotation, field.metadata)

        assert len(_LINK.findall(type_)) == len(specs), f"{key}: a link to the section of each mapping"
        assert expected is None or type_ == expected, key


def test_the_default_freshness_of_every_kind_of_sink_is_listed() -> None:
    _, default, _ = _SECTIONS["links"]["freshness_ms"]

    numbers = {kind: int(number.replace(",", "")) for kind, number in re.findall(r"(\w+) ([\d,]*\d)", default)}
    assert numbers == FRESHNESS_MS


def _default(field: FieldInfo) -> str | None:
    """What stands as the default; None where the code has no value, or an empty one."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, "", (), {}) or isinstance(value, Spec):
        return None
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return f"`{value}`" if isinstance(value, str | Path) else f"`{json.dumps(value)}`"


def _type(key: str, annotation: object, metadata: Sequence[object]) -> str | None:
    """How the page says a type; None where a validator takes another one from the file than the code gets."""
    if key.endswith("_env"):
        return "variable's name"
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        more = [each for one in parts[1:] for each in getattr(one, "metadata", [one])]
        return _type(key, parts[0], [*metadata, *more])
    if get_origin(annotation) in {Union, UnionType}:
        told = [_type(key, part, metadata) for part in parts if part is not NoneType]
        return None if None in told else " or ".join(map(str, told))
    return _single(annotation, metadata)


def _single(annotation: object, metadata: Sequence[object]) -> str | None:
    is_read = any(isinstance(each, BeforeValidator) for each in metadata)
    match get_origin(annotation):
        case None if is_read and annotation in {int, float}:
            return None
        case None:
            return _PLAIN[annotation] + _bounds(metadata)
        case origin if origin is Literal:
            return ", ".join(f"`{json.dumps(each) if each is False else each}`" for each in get_args(annotation))
        case origin if origin is tuple:
            return "one, or a list" if is_read else "list"
        case _:
            return "mapping"


def _bounds(metadata: Sequence[object]) -> str:
    low = next((each for each in metadata if isinstance(each, Ge | Gt)), None)
    high = next((each.le for each in metadata if isinstance(each, Le)), None)
    match low:
        case None:
            return ""
        case Gt():
            return f", above {low.gt}, up to {high}"
        case Ge() if high is None:
            return f", {low.ge} or more"
        case _:
            return f", {low.ge} to {high}"
