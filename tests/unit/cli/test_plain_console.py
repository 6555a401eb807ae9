"""What is printed is what is there: no emoji for `:name:`, no markup, and no code for the operator's terminal."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import structlog
from rich.text import Text

from penstock.cli.console import open_console, say_error, say_note
from penstock.cli.console_tables import print_rows
from penstock.cli.logs import open_logs
from penstock.cli.plain_text import printable
from penstock.cli.sql import print_answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLEARED = "a\x1b[2Jb\x9b2Jc\x07d\re\u202ef"
SHOWN = "a\ufffd[2Jb\ufffd2Jc\ufffdd\ufffde\ufffdf"


def test_colons_and_brackets_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "penstock table FILE 'shop.a:b:c' resume uuid:x:1-5 :smiley: [bold]"
    open_console().print(text, soft_wrap=True)
    print_rows(open_console(), ":smiley:", ["[b]"], [[text]])
    say_note(text)
    say_error(text, text)

    out, err = capsys.readouterr()

    assert out.count(text) == 2
    assert out.splitlines()[1].rstrip() == ":smiley:"
    assert err.count(text) == 3


def test_no_character_of_a_row_is_a_terminals_code(capsys: pytest.CaptureFixture[str]) -> None:
    open_console().print(CLEARED, soft_wrap=True)
    print_answer(pa.table({CLEARED: [CLEARED]}), as_json=False)
    open_console().print(Text(CLEARED), soft_wrap=True)
    say_error(CLEARED, CLEARED)

    out, err = capsys.readouterr()

    assert out.count(SHOWN) == 3
    assert not set("\x1b\x9b\x07\r\u202e") & set(out + err)
    assert err.count(SHOWN) == 2


def test_text_of_all_languages_and_its_spaces_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Zürich\u00a0\u3000東京 🙂\tend"
    open_console().print(text, soft_wrap=True)

    assert printable(text) == text
    assert "Zürich\u00a0\u3000東京 🙂" in capsys.readouterr().out


@pytest.fixture
def _closed_logs() -> Iterator[None]:
    """Close what `open_logs` opens: the log of one test is not that of the next."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in [each for each in root.handlers if each not in before]:
        root.removeHandler(handler)
        handler.close()
    structlog.reset_defaults()


@pytest.mark.usefixtures("_closed_logs")
def test_a_log_on_a_terminal_has_no_codes_of_names_and_its_file_has_them_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = open_logs(tmp_path, console=True)
    structlog.get_logger("penstock").warning(CLEARED, table=CLEARED)

    shown = capsys.readouterr().err
    assert shown.count(SHOWN) == 2
    assert not set("\x1b\x9b\x07\r\u202e") & set(shown)
    assert json.loads(file.read_text())["table"] == CLEARED


def test_what_json_has_no_number_for_is_text_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    values = [math.nan, math.inf, -math.inf, 0.5]
    print_answer(
        pa.table({"a": values, "b": [[each] for each in values], "c": [{"d": [each]} for each in values]}), as_json=True
    )

    lines = [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]
    assert [line["a"] for line in lines] == ["NaN", "Infinity", "-Infinity", 0.5]
    assert [line["b"] for line in lines] == [["NaN"], ["Infinity"], ["-Infinity"], [0.5]]
    assert [line["c"] for line in lines] == [{"d": ["NaN"]}, {"d": ["Infinity"]}, {"d": ["-Infinity"]}, {"d": [0.5]}]
