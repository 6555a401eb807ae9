"""YAML read with the line of every key, so that a mistake can say where it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Location: TypeAlias = tuple[str | int, ...]

_DEPTH_MAX = 32
_VALUES_MAX = 100_000
_INTEGER, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
"""A number to everybody but YAML 1.1, which wants a point in it."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: its line (from 1), the keys that lead to it, and what is wrong."""

    line: int
    location: Location
    text: str

    def __str__(self) -> str:
        """`line 12: sources.0.port: should be a whole number`."""
        where = ".".join(str(part) for part in self.location)
        return f"line {self.line}: {where}: {self.text}" if where else f"line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, the line of each location in it, and the mistakes of the YAML itself."""

    value: object
    lines: Mapping[Location, int]
    mistakes: tuple[Mistake, ...]

    def line(self, location: Location) -> int:
        """The line of `location`, or of the nearest mapping or list around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


def parse_yaml(text: str) -> Document:
    """Parse one YAML 1.1 document, safe tags only. Never raises: what is wrong is among the mistakes."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return Document(None, {}, (Mistake(line, (), f"not valid YAML: {error.reason}"),))
    reader = _Reader(loader)
    try:
        node = loader.get_single_node()
        value = None if node is None else reader.read(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        mistake = Mistake(mark.line + 1 if mark else 1, (), f"not valid YAML: {_explain(error)}")
        return Document(None, {}, (*reader.mistakes, mistake))
    finally:
        loader.dispose()
    return Document(value, reader.lines, tuple(reader.mistakes))


def _explain(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "cannot be read"
    if "\\t" in problem:
        return f"{problem} (indent with spaces, not tabs)"
    if error.context == "while scanning a tag":
        return "text that begins with ! needs quotes"
    return f"{problem} {error.context}" if error.context and error.context != problem else problem


def _misread(node: yaml.Node, value: object) -> str:
    """Say how YAML 1.1 reads a number that nobody means like that, "" for any other value."""
    if node.tag in {_INTEGER, _FLOAT} and ":" in node.value:
        return f"YAML reads {node.value} in base 60, as {value}: put it in quotes if it is text, or write the number"
    if node.tag == _INTEGER and _OCTAL.fullmatch(node.value):
        return f"YAML reads {node.value} in base 8, as {value}: put it in quotes if it is text, or leave the 0s out"
    return ""


def _is_number(node: yaml.Node, value: object) -> bool:
    """Whether what YAML took for text is a number without quotes."""
    is_plain = isinstance(node, yaml.ScalarNode) and not node.style
    return is_plain and isinstance(value, str) and _EXPONENT.fullmatch(value) is not None


@dataclass(slots=True)
class _Reader:
    """Builds plain values from YAML's nodes and writes down where each came from."""

    loader: yaml.SafeLoader
    lines: dict[Location, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def read(self, node: yaml.Node, location: Location) -> object:
        """The bounds keep an alias that contains itself, or doubles itself, from filling the memory."""
        self.lines.setdefault(location, node.start_mark.line + 1)
        if len(location) > _DEPTH_MAX or len(self.lines) > _VALUES_MAX:
            problem = "too deep or too large, or an alias contains itself"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, location)
            case yaml.SequenceNode():
                return [self.read(child, (*location, index)) for index, child in enumerate(node.value)]
            case _:
                return self._scalar(node, location)

    def _scalar(self, node: yaml.Node, location: Location) -> object:
        value: object = None
        try:
            value = self.loader.construct_object(node)
        except yaml.constructor.ConstructorError as error:
            # To YAML an unquoted !shop.x is a tag, but a table pattern is what its author meant.
            text = f"text that begins with ! needs quotes: '{node.tag}'" if node.tag[0] == "!" else str(error.problem)
        else:
            text = _misread(node, value)
            if _is_number(node, value):
                value = float(node.value)
        if not text:
            return value
        self.mistakes.append(Mistake(node.start_mark.line + 1, location, text))
        return None

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, object]:
        self._find_duplicates(node, location)
        self.loader.flatten_mapping(node)
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = str(self.loader.construct_object(key_node)) if isinstance(key_node, yaml.ScalarNode) else "?"
            self.lines[*location, key] = key_node.start_mark.line + 1
            mapping[key] = self.read(value_node, (*location, key))
        return mapping

    def _find_duplicates(self, node: yaml.MappingNode, location: Location) -> None:
        first_lines: dict[str, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            line = key_node.start_mark.line + 1
            if key_node.value in first_lines:
                text = f"key is there twice (first on line {first_lines[key_node.value]})"
                self.mistakes.append(Mistake(line, (*location, key_node.value), text))
            first_lines.setdefault(key_node.value, line)
