"""Which alerts fire over which metrics, by the word of Prometheus's own promtool; time passes in there only."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.prometheus import RULES, program

if TYPE_CHECKING:
    from pathlib import Path

UP = {'up{job="penstock"}': "1x200"}
# Read each time.
WELL = {**UP, 'penstock_running{pipeline="shop"}': "1x200", 'penstock_snapshot_timestamp_seconds{p="shop"}': "0+15x200"}
LINK = '{pipeline="shop",link="shopdb"}'
SOURCE = '{pipeline="shop",source="shopdb"}'


@pytest.mark.parametrize(
    ("series", "fire"),
    [
        pytest.param(WELL, [], id="all is well"),
        pytest.param({'up{job="penstock"}': "0x200"}, ["PenstockDown"], id="nobody answers"),
        pytest.param(
            {**UP, 'penstock_snapshot_timestamp_seconds{p="shop"}': "15x200"},
            ["PenstockMetricsStale"],
            id="the state database does not answer",
        ),
        pytest.param(
            {**WELL, f"penstock_link_stuck_seconds{LINK}": "0+15x200"}, ["PenstockLinkStuck"], id="a link hangs"
        ),
        pytest.param(
            {**WELL, f"penstock_link_stuck_seconds{LINK}": "0+15x60 0+15x140"}, [], id="a copy moves every 15 minutes"
        ),
        pytest.param(
            {
                **WELL,
                f"penstock_source_retention_level{SOURCE}": "0x200",
                f"penstock_source_retention_seconds{SOURCE}": "9e3x200",
            },
            [],
            id="log is kept for longer than the file asks for",
        ),
        pytest.param(
            {**WELL, f"penstock_source_retention_level{SOURCE}": "1x200"},
            ["PenstockSourceLogInDanger"],
            id="log is kept for less than the file asks for",
        ),
    ],
)
def test_alerts_fire_over_what_they_tell_of_and_no_others(
    tmp_path: Path, series: dict[str, str], fire: list[str]
) -> None:
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in fire]
    asked = 'count by (alertname) (ALERTS{alertstate="firing"})'
    case = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": asked, "eval_time": "30m", "exp_samples": expected}],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [case]}))

    told = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=60
    )

    assert (told.returncode, "SUCCESS" in told.stdout) == (0, True), told.stdout + told.stderr
