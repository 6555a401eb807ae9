"""One form of all the texts of an Avro schema that say the same.

Source: Avro 1.12 specification, "Names" and "Schema Declaration"; a namespace
stands where it changes, as Avro's Java library prints it. Unlike the parsing
canonical form it keeps documentation, aliases, defaults and whatever else a
schema has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.core.avro_types import PRIMITIVES
from penstock.schematizer.storage.words import print_json

if TYPE_CHECKING:
    from penstock.core.avro_types import Json

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_ORDER = ("type", "name", "namespace", "doc", "aliases", "logicalType", "precision", "scale", "fields", "default")


def one_form(declared: Json, namespace: str = "") -> Json:
    """Return the form of a valid schema, or of a part that stands in `namespace`."""
    match declared:
        case str():
            return _short(declared, namespace)
        case Mapping():
            return _declaration(declared, namespace)
        case list():
            return [one_form(branch, namespace) for branch in declared]
        case _:
            return declared


def normal_text(declared: Json) -> str:
    """Print the form of a valid schema: without white space, attributes in one order."""
    return print_json(_ordered(one_form(declared)))


def full_name(name: str, namespace: str) -> str:
    """Return the name that a type has everywhere, of how it is called in `namespace`."""
    return name if name in PRIMITIVES or "." in name or not namespace else f"{namespace}.{name}"


def namespace_of(declared: Mapping[str, Json], within: str) -> str:
    """Return the namespace of what a named type contains."""
    name, own = str(declared["name"]), declared.get("namespace", within)
    return name.rpartition(".")[0] if "." in name else str(own)


def _declaration(declared: Mapping[str, Json], namespace: str) -> Json:
    kind = declared.get("type")
    if isinstance(kind, str) and kind in _NAMED:
        return _named(declared, namespace)
    if not isinstance(kind, str):
        return declared
    if len(declared) == 1:
        return _short(kind, namespace)
    form = dict(declared)
    if kind not in {"array", "map"}:
        form["type"] = _short(kind, namespace)
    for part in ("items", "values"):
        if part in declared and kind == {"items": "array", "values": "map"}[part]:
            form[part] = one_form(declared[part], namespace)
    return form


def _named(declared: Mapping[str, Json], within: str) -> Json:
    inner = namespace_of(declared, within)
    form = {key: value for key, value in declared.items() if key != "namespace"}
    form["name"] = str(declared["name"]).rpartition(".")[2]
    if inner != within:
        form["namespace"] = inner
    aliases, fields = declared.get("aliases"), declared.get("fields")
    if isinstance(aliases, list):
        form["aliases"] = [_short(str(alias), inner) for alias in aliases]
    if isinstance(fields, list):
        form["fields"] = [
            {**field, "type": one_form(field["type"], inner)} if "type" in field else field
            for field in fields
            if isinstance(field, Mapping)
        ]
    return form


def _short(name: str, namespace: str) -> str:
    space, dot, simple = name.rpartition(".")
    return simple if dot and space == namespace and simple not in PRIMITIVES else name


def _ordered(form: Json) -> Json:
    if isinstance(form, Mapping):
        places = {key: number for number, key in enumerate(_ORDER)}
        keys = sorted(form, key=lambda key: (places.get(key, len(places)), key))
        return {key: _ordered(form[key]) for key in keys}
    return [_ordered(each) for each in form] if isinstance(form, list) else form
