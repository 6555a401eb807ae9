"""A link that loads a join is none that an audit looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.config.test_joins import EXAMPLE, PIPELINE, write

from penstock.config.audits import AuditSpec
from penstock.config.load import parse
from penstock.core.errors import UsageError
from penstock.wiring.audit import run_audit
from penstock.wiring.audits import named_audits

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

LINKS = "links: [{from: business_review_join, to: warehouse}, {from: shopdb, to: warehouse}]\n"


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    write(tmp_path, EXAMPLE)
    return parse(PIPELINE + LINKS, "shop.yaml", tmp_path)


def test_a_file_without_audits_has_one_of_each_link_from_a_source(spec: PipelineSpec) -> None:
    assert list(named_audits(spec)) == ["shopdb-to-warehouse"]


def test_an_audit_of_a_link_from_a_join_says_what_to_type(spec: PipelineSpec) -> None:
    with pytest.raises(UsageError, match="business_review_join is a join") as refused:
        run_audit(spec, AuditSpec(source="business_review_join", sink="warehouse"), lambda _: None)

    assert "penstock joinery verify FILE business_review_join" in refused.value.hint
