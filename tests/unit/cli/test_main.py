"""The frame of the command line: what is imported when, and how each way to end is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import typer
from typer.testing import CliRunner, Result

from penstock.cli import main as frame
from penstock.core.errors import FencedError, PenstockError, UsageError

HEAVY = ("pyspark", "duckdb", "sqlalchemy", "pyarrow", "numpy", "confluent_kafka", "fastapi", "pydantic", "structlog")
RunRaising: TypeAlias = Callable[[BaseException], Result]
ALL_COMMANDS = ["demo", "run", "check", "status", "snapshot", "sql", "schematizer", "bench", "dev"]


@pytest.fixture
def run_raising(monkeypatch: pytest.MonkeyPatch) -> RunRaising:
    """Run a command that raises what it is given; returns its result."""

    def run(error: BaseException) -> Result:
        command = typer.Typer()

        @command.command()
        def fail() -> None:
            raise error

        module = type(sys)("penstock.cli.status")
        module.app = command  # type: ignore[attr-defined]  # a module made up for this test
        monkeypatch.setitem(sys.modules, "penstock.cli.status", module)
        return CliRunner().invoke(frame.app, ["status"])

    return run


def run_penstock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "100", **environment},
    )


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from penstock.cli.main import app
result = CliRunner().invoke(app, ["--help"])
assert result.exit_code == 0
print(result.output)
print("heavy:", [name for name in {HEAVY!r} if name in sys.modules])
"""

    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout

    assert "heavy: []" in told
    assert all(f" {command} " in told for command in ALL_COMMANDS)


def test_every_command_explains_itself_without_importing_spark() -> None:
    script = f"""
import json, sys
from typer.testing import CliRunner
from penstock.cli.main import app
for command in {ALL_COMMANDS}:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0, result
    print(json.dumps([command, result.output, [name for name in ("pyspark", "duckdb") if name in sys.modules]]))
"""

    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout

    explained = [json.loads(line) for line in told.splitlines()]
    assert [command for command, _, _ in explained] == ALL_COMMANDS
    for command, text, heavy in explained:
        assert f"Usage: root {command}" in text
        assert "completion" not in text
        assert (command, heavy) == (command, [])


@pytest.mark.parametrize("module", ["penstock", "penstock.cli.main"])
def test_modules_run_as_the_command_does(module: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True, timeout=60
    )

    assert told.stdout.startswith("penstock 0.")


def test_a_command_that_is_none_is_a_usage_error_with_a_suggestion() -> None:
    result = run_penstock("chekc", "x.yaml")

    assert result.returncode == 2
    assert "Did you mean 'check'?" in result.stderr


def test_a_missing_argument_is_a_usage_error() -> None:
    assert run_penstock("check").returncode == 2


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(PenstockError("it [broke]", "mend it"), 1), (UsageError("no such", "read"), 2), (FencedError("two", "one"), 1)],
)
def test_an_error_is_told_with_its_hint_and_exit_code(
    run_raising: RunRaising, error: PenstockError, exit_code: int
) -> None:
    result = run_raising(error)

    assert result.exit_code == exit_code
    assert result.stderr == f"{error.message}\n  what to do: {error.hint}\n  error code: {error.error_code}\n"


def test_ctrl_c_says_that_a_rerun_goes_on(run_raising: RunRaising) -> None:
    result = run_raising(KeyboardInterrupt())

    assert result.exit_code == 130
    assert result.stderr == "stopped; run again to go on\n"


def test_ctrl_c_in_the_demo_says_that_a_rerun_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.demo.run.run_demo", interrupted)

    result = CliRunner().invoke(frame.app, ["demo"])

    assert result.exit_code == 130
    assert result.stderr == "stopped; the next demo begins with fresh data\n"


def test_a_defect_leaves_its_traceback_in_a_file(run_raising: RunRaising) -> None:
    result = run_raising(ZeroDivisionError("one by [none]"))

    assert result.exit_code == 1
    assert "unexpected ZeroDivisionError: one by [none]\n" in result.stderr
    file = Path(result.stderr.strip().rpartition(" ")[2])
    assert "raise error" in file.read_text()
    file.unlink()


def test_sigterm_lets_everything_unwind() -> None:
    script = """
import sys, time, types, typer
from penstock.cli import main as frame
app = typer.Typer()
@app.command()
def wait() -> None:
    try:
        print("waiting", flush=True)
        time.sleep(60)
    finally:
        print("unwound", flush=True)
module = types.ModuleType("penstock.cli.status")
module.app = app
sys.modules["penstock.cli.status"] = module
sys.argv = ["penstock", "status"]
frame.main()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"

        process.send_signal(signal.SIGTERM)

        assert process.stdout.read() == "unwound\n"
    assert process.returncode == 143


CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: ./warehouse.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    return file


def test_check_explains_a_pipeline_in_words(file: Path) -> None:
    result = run_penstock("check", str(file), SHOPDB_PASSWORD="hush")

    assert result.returncode == 0
    assert "Source shopdb: the MySQL or MariaDB server 127.0.0.1:1\n" in result.stdout
    assert (
        f"Sink warehouse: the DuckDB file {file.parent}/warehouse.duckdb\n"
        "  gets all tables of shopdb; tables that are dropped there: their rows are kept\n" in result.stdout
    )
    assert "without a primary key arrives as an append-only log" in result.stdout
    assert f"penstock check {file} --connect" in result.stdout
    assert "hush" not in result.stdout
    assert "is not set here" not in result.stdout
    assert not (file.parent / ".penstock").exists()


def test_check_says_which_secret_is_not_set(file: Path) -> None:
    result = CliRunner().invoke(frame.app, ["check", str(file)])

    assert "The environment variable SHOPDB_PASSWORD is not set here" in result.stdout


def test_check_lists_every_mistake_and_exits_with_2(file: Path) -> None:
    file.write_text(CONFIG.replace("user: cdc", "usr: cdc").replace("to: warehouse", "to: x"))

    result = run_penstock("check", str(file))

    assert result.returncode == 2
    assert f"{file} has 3 mistake(s):" in result.stderr
    assert "  line 3: sources.0.usr: unknown key (did you mean user?)\n" in result.stderr
    assert '  line 7: links.0.to: none of the sinks is called "x"\n' in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("check shop.yaml >&-", 0, ""),
        pytest.param("check shop.yaml 2>&-", 0, "", marks=pytest.mark.nightly),
        ("check shop.yaml > /dev/full", 1, "free some space, and run again"),
        ("check Ω.yaml", 2, r"\u03a9.yaml"),
    ],
)
def test_an_output_that_takes_nothing_or_lacks_characters_is_no_defect(
    file: Path, command: str, code: int, said: str
) -> None:
    terminal = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    shell = ["sh", "-c", f"{sys.executable} -m penstock {command}"]

    done = subprocess.run(shell, cwd=file.parent, env=terminal, capture_output=True, timeout=60, check=False)

    told = done.stderr.decode("latin-1")
    assert "defect" not in told
    assert said in told
    assert done.returncode == code, told


def test_status_of_a_pipeline_that_never_ran_starts_nothing(file: Path) -> None:
    result = run_penstock("status", str(file))
    as_json = run_penstock("status", str(file), "--json")

    assert result.returncode == 0
    assert "shop is not running; to start it: penstock run" in result.stdout
    told = json.loads(as_json.stdout)
    assert told == {
        "pipeline": "shop",
        "running": False,
        "holder": None,
        "now_ms": told["now_ms"],
        "healthy": False,
        "problems": [],
        "links": [],
        "tables": [],
        "snapshots": [],
        "audits": [],
        "sources": [],
        "police": None,
        "servers": [],
    }
    assert not (file.parent / ".penstock").exists()
