"""What deploy/ has is what this release understands."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from penstock.core.errors import UsageError

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy" / "systemd" / "penstock@.service"
CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"
ANALYZE = shutil.which("systemd-analyze")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.skipif(ANALYZE is None, reason="this system has no systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = shutil.which("true")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", str(program)))

    checked = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )

    assert [line for line in checked.stderr.splitlines() if UNIT.name in line] == []


def test_a_file_that_cannot_work_does_not_start_the_unit_for_ever() -> None:
    text = UNIT.read_text()

    # systemd does not look at the exit codes of what runs before ExecStart.
    assert "ExecStartPre" not in text
    assert f"RestartPreventExitStatus={UsageError.exit_code}\n" in text


def test_the_unit_may_write_where_the_page_keeps_a_target() -> None:
    text, page = UNIT.read_text(), (ROOT / "docs" / "deploy.md").read_text()
    folders = {Path(each).parent for each in re.findall(r"/srv/[\w/.]+\.duckdb", page)}

    (writable,) = re.findall(r"^ReadWritePaths=-(\S+)$", text, re.MULTILINE)

    assert "ProtectSystem=strict\n" in text
    assert folders == {Path(writable.replace("%i", "shop"))}


def test_the_container_installs_extras_that_there_are_and_runs_commands_that_there_are() -> None:
    text = CONTAINERFILE.read_text()

    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert set(extras.split(",")) <= set(EXTRAS)
    assert 'CMD ["run", "/etc/penstock/pipeline.yaml"]' in text
    assert re.search(r"^USER penstock$", text, re.MULTILINE)
    assert not re.search(r"(?i)password|secret|token", text)


def test_modules_that_are_typed_at_an_installation_are_there_and_can_be_run() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    named = set(re.findall(r"-m (penstock[\w.]+)", CONTAINERFILE.read_text() + page))

    assert named
    for name in named:
        module = ROOT / "src" / f"{name.replace('.', '/')}.py"
        assert '__name__ == "__main__"' in module.read_text(), name


def test_a_container_is_built_in_the_format_that_has_its_health_check() -> None:
    text = CONTAINERFILE.read_text()

    assert "HEALTHCHECK" in text
    assert "podman build --format docker" in text


def test_every_extra_for_users_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()

    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE))))
    assert documented >= set(EXTRAS) - {"bench", "dev"}
