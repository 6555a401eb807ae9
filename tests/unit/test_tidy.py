"""The shape of the code: short modules, short functions, few parameters, telling names."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).parents[2]
_MODULES = sorted([*_ROOT.glob("src/**/*.py"), *_ROOT.glob("tests/**/*.py")])
_MODULE_LINES_MAX = 400
_FUNCTION_LINES_MAX = 50
_PARAMETERS_MAX = 6
_TELL_NOTHING = frozenset({"utils", "util", "helpers", "helper", "manager", "managers", "base", "common", "misc"})


def test_there_are_modules_to_judge() -> None:
    assert len(_MODULES) > 100


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    too_long = {_name(module): lines for module in _MODULES if (lines := _line_count(module)) > _MODULE_LINES_MAX}

    assert too_long == {}


def test_no_function_is_too_long() -> None:
    too_long = {function.place: function.lines for function in _functions() if function.lines > _FUNCTION_LINES_MAX}

    assert too_long == {}


def test_no_function_takes_too_many_parameters() -> None:
    too_many = {
        function.place: function.parameters
        for function in _functions()
        # A test's parameters are the fixtures that it needs.
        if function.place.startswith("src/") and function.parameters > _PARAMETERS_MAX
    }

    assert too_many == {}


def test_no_module_or_package_has_a_name_that_tells_nothing() -> None:
    named_so = [
        _name(module)
        for module in _MODULES
        if _TELL_NOTHING & {part.strip("_").removesuffix(".py") for part in module.relative_to(_ROOT).parts}
    ]

    assert named_so == []


def test_every_module_says_what_it_is_for() -> None:
    # The names of a test module's tests say it.
    ours = [module for module in _MODULES if module.is_relative_to(_ROOT / "src")]
    silent = [_name(module) for module in ours if not ast.get_docstring(_tree(module))]

    assert silent == []


@dataclass(frozen=True, slots=True)
class _Function:
    """A function's module, line and name, its length, and how many parameters it takes."""

    place: str
    lines: int
    parameters: int


@functools.cache
def _functions() -> Sequence[_Function]:
    """All there are: to parse every module takes seconds, and the trees of all would take a gigabyte."""
    return [
        _Function(
            f"{_name(module)}:{node.lineno} {node.name}",
            (node.end_lineno or node.lineno) - node.lineno + 1,
            _parameter_count(node),
        )
        for module in _MODULES
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """All parameters but a method's own `self` or `cls`."""
    taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(parameter.arg not in {"self", "cls"} for parameter in taken)


def _line_count(module: Path) -> int:
    return len(module.read_text().splitlines())


def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(), str(module))


def _name(module: Path) -> str:
    return str(module.relative_to(_ROOT))
