"""The wheel: built from this tree, installed with pip where nothing is, and used there."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: db, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, %s}
links:
  - {from: shopdb, to: warehouse}
"""
DUCKDB = "kind: duckdb, path: shop.duckdb"
POSTGRES = "kind: postgres, host: pg, database: shop, user: loader, password_env: PG_PASSWORD"
OPTIONAL = ("psycopg", "redshift_connector", "kazoo", "snowflake.connector", "pytest", "hypothesis")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a build leaves files beside its sources."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", ".", at=tree)
    (built,) = (tree / "dist").glob("penstock-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it asks for, and nothing else."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(place))
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", str(wheel))
    return place / "bin"


def run(*command: str, at: Path | None = None) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_that_is_no_note(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())

    files = {
        str(file.relative_to(ROOT / "src"))
        for file in (ROOT / "src" / "penstock").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    assert {name for name in files - inside if not name.endswith(".md")} == set()


def test_it_runs_where_nothing_else_is_installed_and_brings_no_driver_that_nobody_asked_for(
    programs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG % DUCKDB)

    helped, checked = run(str(programs / "penstock"), "--help"), run(str(programs / "penstock"), "check", str(file))
    find = f"import importlib.util as u; print([n for n in {OPTIONAL!r} if u.find_spec(n.split('.')[0])])"

    assert "Carry every committed change" in helped
    assert "warehouse" in checked
    assert run(str(programs / "python"), "-c", find).strip() == "[]"


def test_it_brings_the_pages_that_messages_point_to(programs: Path) -> None:
    listed, page = (run(str(programs / "penstock"), "docs", *name) for name in ([], ["targets"]))

    assert {line.split()[0] for line in listed.splitlines()[2:]} == {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert page.rstrip() == (ROOT / "docs" / "targets.md").read_text().rstrip()


def test_a_file_that_needs_a_driver_says_what_to_install(programs: Path, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG % POSTGRES)

    done = subprocess.run(
        [programs / "penstock", "check", file], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 2
    assert "shop needs packages that are not installed: psycopg" in done.stderr
    assert "type: pip install 'penstock[postgres]'" in done.stderr
