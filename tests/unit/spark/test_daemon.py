"""What workers need is imported once, before they are forked; who forks none of them waits for none of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from penstock.config.load import load
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from pathlib import Path

_FILE = """\
pipeline: shop
home: {home}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
schematizer: {{url: "http://127.0.0.1:1"}}
sources: [{{name: shopdb, kind: mysql, host: 127.0.0.1, user: cdc, password_env: NONE, tables: ["shop.*"]}}]
"""
_WORK = """
import sys
from importlib import import_module
from pathlib import Path
from penstock.config.load import load
from penstock.spark.daemon import _NEEDED_BY_TASKS
for name in _NEEDED_BY_TASKS:
    import_module(name)
from penstock.wiring import open as wiring
spec = load(Path(sys.argv[1]))
before = set(sys.modules)
wiring.open_registry(spec).close()
wiring.open_pipeline_state(spec).close()
wiring.open_object_store(spec)
late = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*late & {"alembic", "anyio", "click", "h11", "httpcore", "httpx", "penstock", "pyarrow", "rich", "sqlalchemy"})
"""


def test_a_forked_worker_imports_nothing_for_its_clients(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(_FILE.format(home=tmp_path / "home"))
    # To make the state database takes more than to open it.
    open_pipeline_state(load(file)).close()

    worked = subprocess.run(
        [sys.executable, "-c", _WORK, file], check=True, capture_output=True, text=True, timeout=120
    )

    assert worked.stdout == "\n"


def test_opening_adapters_waits_for_no_client_of_the_registry() -> None:
    look = "import sys, penstock.wiring.open\nprint(*sys.modules.keys() & {'httpx', 'click', 'rich', 'pygments'})"

    looked = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True, timeout=60)

    assert looked.stdout == "\n"
