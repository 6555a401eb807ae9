"""What a new schema is held to beyond what those must be that are here already: JSON, and defaults that are values.

Source: RFC 8259, section 6 (no NaN, no Infinity); Avro 1.12 specification,
"Complex Types" (a default is a value of its field's type; of a union, of any
of its branches: since 1.12 not of the first alone).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from penstock.schematizer.formats.avro_forms import full_name, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro_types import Json

_WHOLE = {"int": 31, "long": 63}
# What else has a name or fields says nothing by them.
_RECORDS = ("record", "error")
_NAMED = (*_RECORDS, "enum", "fixed")
_FLOAT_MAX = 3.4028234663852886e38


def json_problem(text: str) -> str:
    """Say which number in a JSON text is none for others; "" if none is."""
    try:
        json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except ValueError as error:
        return str(error)
    return ""


def default_problem(text: str, used: Sequence[str]) -> str:
    """Say which default of a valid Avro schema, which refers to those `used`, is no value of its field; "" if none."""
    names: dict[str, tuple[Mapping[str, Json], str]] = {}
    for each in used:
        for _ in _defaults(json.loads(each), "", names):
            pass
    # All names first: a default may be of a type that is declared after its field's record begins.
    found = list(_defaults(json.loads(text), "", names))
    for path, declared, namespace, value in found:
        if not _fits(declared, namespace, value, names):
            return f"the default of {path} is no value of its type: {json.dumps(value)[:80]}"
    return ""


def _defaults(
    declared: Json, namespace: str, names: dict[str, tuple[Mapping[str, Json], str]]
) -> Iterator[tuple[str, Json, str, Json]]:
    """Yield the fields that have defaults: path, type, the type's namespace and the default. Fills `names`."""
    if isinstance(declared, list):
        for branch in declared:
            yield from _defaults(branch, namespace, names)
    if not isinstance(declared, Mapping):
        return
    if declared.get("type") in _NAMED and "name" in declared:
        inner = namespace_of(declared, namespace)
        name = str(declared["name"])
        names[full_name(name, inner)] = (declared, inner)
        fields = declared.get("fields")
        for field in fields if isinstance(fields, list) and declared["type"] in _RECORDS else ():
            if isinstance(field, Mapping):
                yield from _defaults(field["type"], inner, names)
                if "default" in field:
                    yield f"{name}.{field['name']}", field["type"], inner, field["default"]
    for part in ("items", "values"):
        if part in declared:
            yield from _defaults(declared[part], namespace, names)


def _fits(  # noqa: PLR0911 - a table of types
    declared: Json, namespace: str, value: Json, names: Mapping[str, tuple[Mapping[str, Json], str]]
) -> bool:
    if isinstance(declared, list):
        return any(_fits(branch, namespace, value, names) for branch in declared)
    if isinstance(declared, str):
        known = names.get(full_name(declared, namespace))
        return _fits_primitive(declared, value) if known is None else _fits(*known, value, names)
    if not isinstance(declared, Mapping):
        return False
    match declared["type"]:
        case "array":
            return isinstance(value, list) and all(_fits(declared["items"], namespace, v, names) for v in value)
        case "map":
            return isinstance(value, Mapping) and all(
                _fits(declared["values"], namespace, v, names) for v in value.values()
            )
        case "enum":
            symbols = declared["symbols"]
            return isinstance(symbols, list) and value in symbols
        case "fixed":
            return _is_bytes(value) and len(str(value)) == declared["size"]
        case "record" | "error":
            return isinstance(value, Mapping) and _fits_fields(declared, namespace, value, names)
        case str() as name:
            return _fits(name, namespace, value, names)
        case _:
            return False


def _fits_fields(
    record: Mapping[str, Json],
    namespace: str,
    value: Mapping[str, Json],
    names: Mapping[str, tuple[Mapping[str, Json], str]],
) -> bool:
    inner = namespace_of(record, namespace)
    fields = record["fields"]
    return isinstance(fields, list) and all(
        _fits(field["type"], inner, value[str(field["name"])], names)
        if str(field["name"]) in value
        else "default" in field
        for field in fields
        if isinstance(field, Mapping)
    )


def _fits_primitive(kind: str, value: Json) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and -(1 << _WHOLE[kind]) <= int(str(value)) < 1 << _WHOLE[kind]
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool) and _is_floating(kind, value)
        case "bytes":
            return _is_bytes(value)
        case _:
            return isinstance(value, str)


def _is_floating(kind: str, value: float) -> bool:
    try:
        return math.isfinite(value) and (kind == "double" or abs(value) <= _FLOAT_MAX)
    except OverflowError:
        return False


def _is_bytes(value: Json) -> bool:
    """Tell whether a text stands for bytes: its characters are those of ISO 8859-1."""
    return isinstance(value, str) and all(ord(character) <= 0xFF for character in value)  # noqa: PLR2004 - a byte


def _refuse(name: str) -> NoReturn:
    message = f"{name} is no JSON"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        message = f"{digits[:80]} is larger than any number that others read"
        raise ValueError(message)
    return number
