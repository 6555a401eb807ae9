"""What an install without extras starts: all but what needs the packages that they bring."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """\
import sys
sys.modules["psycopg"] = None
import penstock.cli.demo, penstock.demo.run, penstock.faults.world, penstock.wiring.audit_urls
from penstock.demo.sources.pick import kind_of
from penstock.faults.pick import fault_source
print(kind_of("mysql").name, type(fault_source("mysql")).__name__)
"""


def test_without_the_driver_of_postgres_what_is_about_mysql_works() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout.split()[-1:], ran.returncode) == (["MariadbSource"], 0), ran.stderr
