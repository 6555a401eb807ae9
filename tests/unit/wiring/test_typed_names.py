"""Commands to type are read by a shell: a table's or a file's name is one word of them, whatever is in it."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.audit.landing import describe_foreign
from penstock.core.commands import name_file, shell_word
from penstock.core.schema_changes import Move
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.core.tables import TableId
from penstock.core.topic_fingerprints import bring_back
from penstock.links.warehouse.landing_limits import not_renamed
from penstock.ports.snapshots import Snapshot
from penstock.ports.state import TableProgress
from penstock.ports.table_actions import Action, Stage, TableRequest
from penstock.wiring.health import find_problems
from penstock.wiring.pipeline_status import PipelineStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILE = "my shop.yaml"
LINK = "shopdb-to-pg"
TABLES = ["shop.order items", "shop.items; $(touch x)", "shop.it's, or not", "shop.penstock table FILE TABLE; `x`"]

SNAPSHOT = Snapshot("1", "shopdb", "", SnapshotOptions(), Wanted.PAUSE, Status.PAUSED, 7)
REQUEST = TableRequest("1", LINK, "", Action.PAUSE, "somebody", Stage.DONE)


def typed(hint: str) -> Sequence[Sequence[str]]:
    """The words of each command in a hint."""
    starts = [found.start() for found in re.finditer(r"\bpenstock (?:snapshot|table|run) '", hint)]
    ends = [*starts[1:], len(hint)]
    return [shlex.split(hint[start:end].replace("(--full-lock", "")) for start, end in zip(starts, ends, strict=True)]


def told(status: PipelineStatus) -> Sequence[str]:
    return [each.hint for each in find_problems(status, FILE)]


def health_hints(table: str) -> Iterator[str]:
    snapshots = [
        replace(SNAPSHOT, table=table),
        replace(SNAPSHOT, table=table, status=Status.FAILED, error="no room"),
        replace(SNAPSHOT, table=table, options=SnapshotOptions(link="gone")),
    ]
    requests = [
        replace(REQUEST, table=table),
        replace(REQUEST, table=table, link="shopdb-to-lake", action=Action.DROP),
    ]
    stopped = TableProgress(LINK, table, 9, 1_000, 1_000, "a geometry", "leave it out")
    names = frozenset({LINK})
    for holder in ("pid 7", ""):
        yield from told(PipelineStatus(holder, [], [], snapshots=snapshots, requests=requests, loading=names))
        yield from told(PipelineStatus(holder, [], [stopped], loading=names))


@pytest.mark.parametrize("table", TABLES)
def test_a_shell_reads_the_file_and_the_table_of_each_command_that_a_status_tells(table: str) -> None:
    commands = [words for hint in health_hints(table) for words in typed(hint)]

    assert len(commands) > 10
    assert {words[2] for words in commands} <= {FILE, f"{FILE};"}
    named = {words[3].removesuffix(";") for words in commands if words[1] != "run"}
    assert named == {table}


@pytest.mark.parametrize("table", TABLES)
def test_a_shell_reads_the_table_of_each_command_that_an_error_tells(table: str) -> None:
    parsed = TableId.parse(table)
    hints = [
        bring_back(table),
        describe_foreign("RAW.ORDERS", parsed, [("a", 0, 7, "noon")]).rpartition("; delete")[2],
        not_renamed([Move(table, table, 7)]).hint,
    ]
    commands = [words for hint in hints for words in typed(name_file(hint, FILE, table))]

    assert {tuple(words[2:4]) for words in commands} == {(FILE, table)}
    assert len(commands) == 4


def test_a_source_is_named_behind_a_table_that_is_quoted() -> None:
    hint = f"type: penstock table FILE {shell_word('shop.order items')} resume"

    named = name_file(hint, "p.yaml", "shop.order items", "shopdb")

    assert named == "type: penstock table p.yaml 'shop.order items' --source shopdb resume"


def test_no_f_string_writes_a_name_into_a_command_as_it_is() -> None:
    source = Path(__file__).parents[3] / "src/penstock"
    # What benchmarks print of penstock is no command.
    texts = {each: each.read_text() for each in source.glob("**/*.py") if "bench" not in each.parts}
    bare = {
        f"{module.relative_to(source)}: {name}"
        for module, text in texts.items()
        if re.search(r"\bpenstock [a-z]+ .*\{", text)
        for name in bare_names(ast.parse(text))
    }

    # A Spark session has a name that is no command, and what an enum says needs no quotes.
    assert bare == {
        "cli/sql.py: spec.pipeline",
        "demo/report.py: pipeline.source_kind.name",
        "dev/background.py: service.value",
    }


_FILE_WORD = re.compile(r"\bpenstock (?:[a-z]+ )+(\0)")
_TABLE_WORD = re.compile(r"\bpenstock (?:snapshot|table|snowflake [a-z]+) (?:FILE|\0) (\0)")


def bare_names(tree: ast.Module) -> Iterator[str]:
    """What stands for a file or a table of a command, and is neither `typed` nor passed through `shell_word`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)
        values = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
        for pattern in (_FILE_WORD, _TABLE_WORD):
            for found in pattern.finditer(text):
                name = ast.unparse(values[text.count("\0", 0, found.start(1))])
                if name != "typed" and not name.startswith("shell_word("):
                    yield name
