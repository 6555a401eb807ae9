"""Every error has a code of its own, and the page of errors explains each."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import penstock
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


def _source() -> str:
    """All of the package's text, with strings that stand one below the other joined."""
    package = Path(penstock.__file__).parent
    text = "\n".join(path.read_text() for path in sorted(package.rglob("*.py")))
    return " ".join(re.sub(r'"\s*\n\s*f?"', "", text).split())


def test_every_message_that_the_page_quotes_stands_in_the_code() -> None:
    messages = _PAGE.split("## Messages")[1].splitlines()
    quoted = [
        quote for row in messages if row.startswith("| `") for quote in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    ]
    parts = {part.strip(" ,:") for quote in quoted for part in quote.split("...")}
    source = _source()

    missing = [part for part in sorted(parts) if part not in source]

    assert len(parts) > 90
    assert missing == []
