"""What an install without extras starts: all but what needs the packages that they bring."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.core.errors import UsageError
from penstock.core.extras import extra_of, package_of

WITHOUT = """\
import sys
sys.modules["psycopg"] = None
import penstock.cli.demo, penstock.demo.run, penstock.faults.world, penstock.wiring.audit_urls
from penstock.demo.sources.pick import kind_of
from penstock.faults.pick import fault_source
print(kind_of("mysql").name, type(fault_source("mysql")).__name__)
"""


@pytest.mark.nightly
def test_without_the_driver_of_postgres_what_is_about_mysql_works() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout.split()[-1:], ran.returncode) == (["MariadbSource"], 0), ran.stderr


@pytest.mark.parametrize("module", ["penstock.adapters.state.database", "penstock.schematizer.storage.database"])
def test_a_database_whose_driver_is_missing_says_which_extra_to_install(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(UsageError) as refused:
        import_module(module).open_engine("postgresql://u:p@127.0.0.1:1/d")

    assert refused.value.hint == "type: pip install 'penstock[postgres]'"


def test_every_extra_for_users_has_a_package_that_its_lack_is_known_by() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    for extra in set(extras["optional-dependencies"]) - {"bench", "dev"}:
        assert find_spec(package_of(extra)) is not None
        assert extra_of(f"{package_of(extra)}.connector") == extra
