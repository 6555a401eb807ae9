"""Every error has a code of its own, and the page of errors explains each."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import penstock.core
from penstock.core.errors import PenstockError
from penstock.schematizer.refusals import RefusedError

_PAGE = (Path(__file__).parents[3] / "docs" / "errors.md").read_text()


def _kinds(kind: type[PenstockError]) -> list[type[PenstockError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _kinds(child))]


def test_every_public_error_has_a_code_of_its_own_that_the_page_explains_with_its_exit_code() -> None:
    for module in pkgutil.iter_modules(penstock.core.__path__, "penstock.core."):
        importlib.import_module(module.name)
    kinds = [each for each in _kinds(PenstockError) if each.__module__.startswith("penstock.core")] + [RefusedError]
    told = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (\d) \|$", _PAGE, re.MULTILINE))

    assert all("error_code" in vars(each) for each in kinds)
    assert told == {each.error_code: str(each.exit_code) for each in kinds}
    assert len(told) == len(kinds)
